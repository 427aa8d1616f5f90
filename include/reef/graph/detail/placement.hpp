#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include <reef/core/units.hpp>

namespace reef::inline v0::graph::detail {

/// Every address that the planner gives out is a multiple of this.
inline constexpr Bytes alignment = 64;

/// Memory that is needed from step `first` to step `last`, both included.
struct Interval {
  Bytes bytes = 0;
  int first = 0;
  int last = 0;
  Bytes offset = 0;  ///< the answer
};

/// Gives every interval an offset, so that no two that live at the same time overlap; returns the
/// bytes that all of them need together.
///
/// Largest first, each at the lowest free offset. Deterministic: ties go to the earlier interval.
/// Source: Pisarchyk and Lee, Efficient memory management for deep neural net inference,
/// arXiv 2001.03288, section 5.3 (greedy by size).
inline Bytes place(std::vector<Interval>& intervals) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return intervals[a].bytes > intervals[b].bytes;
  });
  Bytes total = 0;
  std::vector<std::size_t> placed;  // by ascending offset
  for (const std::size_t i : order) {
    Interval& interval = intervals[i];
    const Bytes bytes = round_up(interval.bytes, alignment);
    if (bytes == 0) continue;
    Bytes offset = 0;
    for (const std::size_t j : placed) {
      const Interval& other = intervals[j];
      if (other.last < interval.first || interval.last < other.first) continue;
      if (other.offset >= offset + bytes) break;
      offset = std::max(offset, other.offset + round_up(other.bytes, alignment));
    }
    interval.offset = offset;
    total = std::max(total, offset + bytes);
    const auto at =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](Bytes value, std::size_t j) { return value < intervals[j].offset; });
    placed.insert(at, i);
  }
  return total;
}

}  // namespace reef::inline v0::graph::detail
