#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/core/index_runs.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE std::vector<IndexRun> runs_of(std::span<const std::int64_t> ascending) {
  std::vector<IndexRun> runs;
  for (const std::int64_t index : ascending) {
    if (!runs.empty()) {
      IndexRun& last = runs.back();
      const std::int64_t stride = last.count == 1 ? index - last.first : last.stride;
      if (last.first + stride * last.count == index) {
        last.stride = stride;
        ++last.count;
        continue;
      }
    }
    runs.push_back({index, 1, 1});
  }
  return runs;
}

namespace detail {

/// Returns how many indices runs stand for, where an index of two runs counts twice.
inline std::int64_t total_of(std::span<const IndexRun> runs) {
  constexpr std::int64_t highest = std::int64_t{1} << 53;  // that JSON's numbers can say
  std::int64_t total = 0;
  for (const IndexRun& run : runs) {
    const bool in_range = run.first >= 0 && run.first < highest && run.stride >= 1 && run.stride < highest &&
                          run.count >= 1 && run.count <= max_indices_of_round &&
                          run.stride <= (highest - run.first) / run.count;
    total += in_range ? run.count : 0;
    if (!in_range || total > max_indices_of_round) {
      throw DecodeError("reef::swarm: the run of micro-batches {", run.first, ", ", run.stride, ", ", run.count,
                        "} is beyond what a round may have.\n  fix: first from 0, a stride and a count from 1, and "
                        "at most ",
                        max_indices_of_round, " indices.");
    }
  }
  return total;
}

[[noreturn]] inline void refuse_twice(std::int64_t index) {
  throw DecodeError("reef::swarm: micro-batch ", index, " is in a list of runs twice.\n  fix: each index once.");
}

}  // namespace detail

REEF_INLINE std::int64_t count_of(std::span<const IndexRun> runs) {
  const std::int64_t total = detail::total_of(runs);
  if (runs.size() < 2) return total;
  // Merges the runs: the next index of each, and how many more it has.
  struct Next {
    std::int64_t index;
    std::int64_t stride;
    std::int64_t left;
    bool operator>(const Next& other) const { return index > other.index; }
  };
  std::priority_queue<Next, std::vector<Next>, std::greater<>> merged;
  for (const IndexRun& run : runs) merged.push({run.first, run.stride, run.count - 1});
  for (std::int64_t last = -1; !merged.empty();) {
    const Next next = merged.top();
    merged.pop();
    if (next.index == last) detail::refuse_twice(last);
    last = next.index;
    if (next.left > 0) merged.push({next.index + next.stride, next.stride, next.left - 1});
  }
  return total;
}

REEF_INLINE std::vector<std::int64_t> indices_of(std::span<const IndexRun> runs) {
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(detail::total_of(runs)));
  for (const IndexRun& run : runs) {
    for (std::int64_t k = 0; k < run.count; ++k) indices.push_back(run.first + k * run.stride);
  }
  std::sort(indices.begin(), indices.end());
  const auto twice = std::adjacent_find(indices.begin(), indices.end());
  if (twice != indices.end()) detail::refuse_twice(*twice);
  return indices;
}

REEF_INLINE IndexSet::IndexSet(std::vector<std::pair<std::int64_t, std::int64_t>> ranges) : ranges_(std::move(ranges)) {
  std::int64_t last = -1;
  for (const auto& [begin, end] : ranges_) {
    if (begin <= last || begin >= end) {
      throw DecodeError("reef::swarm: a set of indices has the range ", begin, " to ", end, " after ", last,
                        ".\n  fix: ranges of at least one index, ascending, with gaps between them.");
    }
    last = end;
  }
}

REEF_INLINE std::size_t IndexSet::at_or_after(std::int64_t index) const {
  const auto found =
      std::partition_point(ranges_.begin(), ranges_.end(), [&](const auto& range) { return range.second <= index; });
  return static_cast<std::size_t>(found - ranges_.begin());
}

REEF_INLINE bool IndexSet::contains(std::int64_t index) const {
  const std::size_t at = at_or_after(index);
  return at < ranges_.size() && ranges_[at].first <= index;
}

REEF_INLINE bool IndexSet::add(std::int64_t index) {
  const std::size_t at = at_or_after(index);
  if (at < ranges_.size() && ranges_[at].first <= index) return false;
  const bool joins_before = at > 0 && ranges_[at - 1].second == index;
  const bool joins_after = at < ranges_.size() && ranges_[at].first == index + 1;
  const auto here = ranges_.begin() + static_cast<std::ptrdiff_t>(at);
  if (joins_before && joins_after) {
    ranges_[at - 1].second = ranges_[at].second;
    ranges_.erase(here);
  } else if (joins_before) {
    ++ranges_[at - 1].second;
  } else if (joins_after) {
    --ranges_[at].first;
  } else {
    ranges_.insert(here, {index, index + 1});
  }
  return true;
}

REEF_INLINE bool IndexSet::remove(std::int64_t index) {
  const std::size_t at = at_or_after(index);
  if (at >= ranges_.size() || ranges_[at].first > index) return false;
  const auto [begin, end] = ranges_[at];
  const auto here = ranges_.begin() + static_cast<std::ptrdiff_t>(at);
  if (begin == index && end == index + 1) {
    ranges_.erase(here);
  } else if (begin == index) {
    ++ranges_[at].first;
  } else if (end == index + 1) {
    --ranges_[at].second;
  } else {
    ranges_[at].second = index;
    ranges_.insert(here + 1, {index + 1, end});
  }
  return true;
}

REEF_INLINE std::int64_t IndexSet::count() const {
  std::int64_t total = 0;
  for (const auto& [begin, end] : ranges_) total += end - begin;
  return total;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
