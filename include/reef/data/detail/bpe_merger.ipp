#pragma once

#include <algorithm>
#include <functional>

#include <reef/core/inline.hpp>
#include <reef/data/detail/bpe_merger.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

REEF_INLINE const Merge* MergeTable::find(std::int32_t left, std::int32_t right) const {
  const Merge& found = slots_[slot_of(left, right)];
  return found.left < 0 ? nullptr : &found;
}

REEF_INLINE std::size_t MergeTable::slot_of(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
                            static_cast<std::uint32_t>(right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (key * 0x9E3779B97F4A7C15U >> 20) & mask;
  while (slots_[at].left >= 0 && (slots_[at].left != left || slots_[at].right != right)) {
    at = (at + 1) & mask;
  }
  return at;
}

REEF_INLINE void BpeMerger::scan(std::vector<std::int32_t>& ids, std::size_t begin) {
  pairs_.clear();
  for (std::size_t i = begin; i + 1 < ids.size(); ++i) {
    pairs_.push_back(table_->find(ids[i], ids[i + 1]));
  }
  for (;;) {
    std::size_t best = pairs_.size();
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_[i] == nullptr) continue;
      if (best == pairs_.size() || pairs_[i]->rank < pairs_[best]->rank) best = i;
    }
    if (best == pairs_.size()) return;
    const std::size_t at = begin + best;
    ids[at] = pairs_[best]->merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) pairs_[best - 1] = table_->find(ids[at - 1], ids[at]);
    if (best < pairs_.size()) pairs_[best] = table_->find(ids[at], ids[at + 1]);
  }
}

REEF_INLINE void BpeMerger::heap(std::vector<std::int32_t>& ids, std::size_t begin) {
  parts_.clear();
  candidates_.clear();
  const std::size_t count = ids.size() - begin;
  for (std::size_t i = 0; i < count; ++i) parts_.push_back({ids[begin + i], i - 1, i + 1});
  for (std::size_t i = 0; i + 1 < count; ++i) add(i);
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    const auto [rank, at, merge] = candidates_.back();
    candidates_.pop_back();
    Part& left = parts_[at];
    if (left.id != merge->left || left.next == count) continue;
    Part& right = parts_[left.next];
    if (right.id != merge->right) continue;
    left.id = merge->merged;
    left.next = right.next;
    right.id = -1;
    if (left.next < count) {
      parts_[left.next].previous = at;
      add(at);
    }
    if (at > 0) add(left.previous);
  }
  ids.resize(begin);
  for (std::size_t i = 0; i < count; i = parts_[i].next) ids.push_back(parts_[i].id);
}

REEF_INLINE void BpeMerger::add(std::size_t at) {
  const Merge* const merge = table_->find(parts_[at].id, parts_[parts_[at].next].id);
  if (merge == nullptr) return;
  candidates_.emplace_back(merge->rank, at, merge);
  std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
