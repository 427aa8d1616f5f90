#pragma once

#include <cstdint>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The compression ratios (values of a message over values sent) of each edge between pipeline stages, where they
/// change while training.
///
/// \code
/// const run::EdgeRatios ratios{.step = 100, .by_edge = {0, 40, 1}};
/// \endcode
struct EdgeRatios {
  std::int64_t step = -1;         ///< the number of committed steps when link speeds were last measured; -1: never
  /// The ratio of each edge between stages; 0: its codec decides; 1: all numbers are sent.
  std::vector<double> by_edge{};
};

}  // namespace run
}  // namespace v0
}  // namespace reef
