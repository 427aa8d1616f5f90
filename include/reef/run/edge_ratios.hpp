#pragma once

#include <cstdint>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The compression ratios of messages on each edge between stages, where they change while training.
///
/// \code
/// const run::EdgeRatios ratios{.step = 100, .by_edge = {0, 40, 1}};
/// \endcode
struct EdgeRatios {
  std::int64_t step = -1;         ///< the number of committed steps when links were last measured; -1: never
  std::vector<double> by_edge{};  ///< the ratio of each remote edge; 0: its codec decides; 1: all numbers are sent
};

}  // namespace run
}  // namespace v0
}  // namespace reef
