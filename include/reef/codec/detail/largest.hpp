#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <reef/codec/detail/bits.hpp>
#include <reef/codec/threads.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

/// Some of many numbers, by ascending index.
struct Selected {
  std::vector<std::uint32_t> indices{};
  std::vector<float> values{};
};

/// The k of largest magnitude, 0 <= k <= n; of two as large, the lower.
///
/// | many   | a threshold that a sample says some more than k reach, one pass that keeps those, and the k-th of them |
/// | else   | where the sample misled, as it may where many are as large, or n / k is below 8: two passes that count |
/// |        | the numbers of each of 32768 classes of magnitude and keep those of the k-th's, and one that selects   |
Selected largest(std::span<const float> values, std::int64_t k, const Threads& threads);

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/detail/largest.ipp>
#endif
