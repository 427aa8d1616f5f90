#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// A sequence of micro-batch indices first, first + stride, ..., of which there are `count`.
struct IndexRun {
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;

  friend bool operator==(const IndexRun&, const IndexRun&) = default;
};

/// The most micro-batch indices that one compressed list may stand for, and the most rounds: bounds for input from
/// elsewhere.
inline constexpr std::int64_t max_indices_of_round = 1 << 20;

/// Returns ascending indices as arithmetic sequences (first, stride, count), each as long as it can be.
std::vector<IndexRun> runs_of(std::span<const std::int64_t> ascending);

/// Returns how many indices runs stand for. Throws DecodeError as indices_of(), with memory by runs, not by indices.
std::int64_t count_of(std::span<const IndexRun> runs);

/// Returns the indices of runs, ascending. Throws DecodeError for negative or repeated indices, strides below 1, and
/// more than max_indices_of_round.
std::vector<std::int64_t> indices_of(std::span<const IndexRun> runs);

/// A set of indices, stored as ranges: small where nearly all indices up to the highest one are in the set.
///
/// \code
/// swarm::IndexSet committed;
/// committed.add(7);
/// const bool there = committed.contains(7);
/// \endcode
class IndexSet {
public:
  IndexSet() = default;
  /// Makes the set of ranges [first, second). Throws DecodeError unless they ascend, with gaps between them.
  explicit IndexSet(std::vector<std::pair<std::int64_t, std::int64_t>> ranges);

  /// Adds an index. Returns false if it was in the set already.
  bool add(std::int64_t index);
  /// Removes an index. Returns false if it was not in the set.
  bool remove(std::int64_t index);
  [[nodiscard]] bool contains(std::int64_t index) const;
  [[nodiscard]] std::int64_t count() const;
  /// Returns one more than the highest index in the set; 0 if there is none.
  [[nodiscard]] std::int64_t end() const { return ranges_.empty() ? 0 : ranges_.back().second; }
  /// Returns the ranges [first, second) of the set, ascending, with gaps between them.
  [[nodiscard]] const std::vector<std::pair<std::int64_t, std::int64_t>>& ranges() const& { return ranges_; }
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> ranges() const&& { return ranges_; }

  friend bool operator==(const IndexSet&, const IndexSet&) = default;

private:
  /// Returns the position of the first range that ends behind `index`, in the list of ranges.
  [[nodiscard]] std::size_t at_or_after(std::int64_t index) const;

  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/index_runs.ipp>
#endif
