#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

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
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return intervals[a].bytes != intervals[b].bytes ? intervals[a].bytes > intervals[b].bytes : a < b;
  });
  Bytes total = 0;
  int longest = 0;
  std::vector<Interval> placed;  // by their first steps: those that meet an interval stand near each other
  for (const std::size_t i : order) {
    Interval& interval = intervals[i];
    if (interval.bytes == 0) continue;
    std::vector<ByteRange> taken;
    const auto after = std::ranges::upper_bound(placed, interval.last, {}, &Interval::first);
    for (auto other = after; other != placed.begin();) {
      --other;
      if (interval.first - other->first > longest) break;  // this one and all before it end earlier
      if (other->last >= interval.first) taken.push_back({other->offset, other->offset + other->bytes});
    }
    interval.offset = first_fit(std::move(taken), interval.bytes);
    total = (std::max)(total, round_up(interval.offset + interval.bytes, arena_alignment));
    longest = (std::max)(longest, interval.last - interval.first);
    placed.insert(std::ranges::upper_bound(placed, interval.first, {}, &Interval::first), interval);
  }
  return total;
}

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
