#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include <reef/data/detail/bpe_files.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// From a pair of tokens to what they merge to: open addressing, at most half full.
class MergeTable {
public:
  MergeTable() = default;
  explicit MergeTable(std::span<const Merge> merges)
      : slots_(std::bit_ceil(2 * merges.size() + 2), Merge{-1, -1, -1, -1}) {
    for (const Merge& merge : merges) slots_[slot_of(merge.left, merge.right)] = merge;
  }

  /// nullptr where the two do not merge.
  [[nodiscard]] const Merge* find(std::int32_t left, std::int32_t right) const;

private:
  /// The pair's slot, or the free one where it would go.
  [[nodiscard]] std::size_t slot_of(std::int32_t left, std::int32_t right) const;

  std::vector<Merge> slots_;
};

/// Merges the neighbours of lowest rank, the leftmost first, until none merge.
///
/// | cost | O(n log n) for n bytes: a heap of pairs, where outdated ones are skipped; short |
/// |      | pieces, by far the most, look for the lowest one by one                         |
class BpeMerger {
public:
  explicit BpeMerger(const MergeTable& table) : table_(&table) {}

  /// Replaces `ids` from `begin` on by what they merge to.
  void merge(std::vector<std::int32_t>& ids, std::size_t begin) {
    ids.size() - begin <= short_piece ? scan(ids, begin) : heap(ids, begin);
  }

private:
  static constexpr std::size_t short_piece = 24;

  void scan(std::vector<std::int32_t>& ids, std::size_t begin);

  void heap(std::vector<std::int32_t>& ids, std::size_t begin);

  /// The pair of part `at` and the next.
  void add(std::size_t at);

  struct Part {
    std::int32_t id;  // -1 once it is merged into its left neighbour
    std::size_t previous;
    std::size_t next;
  };

  const MergeTable* table_;
  std::vector<const Merge*> pairs_;
  std::vector<Part> parts_;
  std::vector<std::tuple<std::int32_t, std::size_t, const Merge*>> candidates_;
};

}  // namespace data::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/detail/bpe_merger.ipp>
#endif
