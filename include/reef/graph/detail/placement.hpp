#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::graph::detail {

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
  std::vector<std::size_t> placed;
  for (const std::size_t i : order) {
    Interval& interval = intervals[i];
    if (interval.bytes == 0) continue;
    std::vector<ByteRange> taken;
    for (const std::size_t j : placed) {
      const Interval& other = intervals[j];
      if (other.last < interval.first || interval.last < other.first) continue;
      taken.push_back({other.offset, other.offset + other.bytes});
    }
    interval.offset = first_fit(std::move(taken), interval.bytes);
    total = std::max(total, round_up(interval.offset + interval.bytes, arena_alignment));
    placed.push_back(i);
  }
  return total;
}

}  // namespace reef::inline v0::graph::detail
