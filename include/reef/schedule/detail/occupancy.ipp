#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

#include <reef/core/inline.hpp>
#include <reef/schedule/detail/occupancy.hpp>

namespace reef::inline v0::schedule::detail {

REEF_INLINE bool Lifetime::before(const Lifetime& other) const {
  for (std::size_t l = 0; l < lane_count; ++l) {
    if (last[l] > other.known[l]) return false;
  }
  return true;
}

REEF_INLINE Bytes Occupancy::lowest_offset(Bytes bytes, const Lifetime& life) const {
  Search search{bytes, life};
  visit(root_, search);
  looked_at_ += search.looked_at;
  return search.offset;
}

REEF_INLINE void Occupancy::insert(ByteRange range, const Lifetime& life) {
  const auto node = static_cast<Index>(nodes_.size());
  // Any order that looks random, and is the same in every run, keeps the tree shallow.
  std::uint64_t order = (node + 1ULL) * 0x9E3779B97F4A7C15ULL;
  order = (order ^ (order >> 31)) * 0xBF58476D1CE4E5B9ULL;
  nodes_.push_back(
      {range.begin, round_up(range.end, arena_alignment), life, order ^ (order >> 29)});
  update(node);
  root_ = insert_below(root_, node);
}

REEF_INLINE bool Occupancy::any_above(const Clock& a, const Clock& b) {
  for (std::size_t l = 0; l < lane_count; ++l) {
    if (a[l] > b[l]) return true;
  }
  return false;
}

REEF_INLINE void Occupancy::visit(Index index, Search& search) const {
  if (index == none || search.found) return;
  const Node& node = nodes_[index];
  const Summary& all = node.all;
  ++search.looked_at;
  if (search.offset + search.bytes <= all.begin) {
    search.found = true;
    return;
  }
  const Lifetime& life = search.life;
  if (all.end <= search.offset || !any_above(all.most_last, life.known) ||
      !any_above(life.last, all.least_known)) {
    return;  // too low, or all of it before, or all after
  }
  const bool meets_all =
      any_above(all.least_last, life.known) && any_above(life.last, all.most_known);
  if (meets_all && all.hole < search.bytes) {
    search.offset = std::max(search.offset, all.end);
    return;
  }
  visit(node.left, search);
  if (search.found) return;
  if (search.offset + search.bytes <= node.begin) {
    search.found = true;
    return;
  }
  if (node.end > search.offset && !node.life.before(life) && !life.before(node.life)) {
    search.offset = node.end;
  }
  visit(node.right, search);
}

REEF_INLINE void Occupancy::update(Index index) {
  Node& node = nodes_[index];
  Summary all{node.begin,     node.end,      0, node.life.known, node.life.known,
              node.life.last, node.life.last};
  const auto add = [&all](const Summary& behind) {
    all.hole = std::max(all.hole, behind.hole);
    if (behind.begin > all.end) all.hole = std::max(all.hole, behind.begin - all.end);
    all.end = std::max(all.end, behind.end);
    for (std::size_t l = 0; l < lane_count; ++l) {
      all.least_known[l] = std::min(all.least_known[l], behind.least_known[l]);
      all.most_known[l] = std::max(all.most_known[l], behind.most_known[l]);
      all.least_last[l] = std::min(all.least_last[l], behind.least_last[l]);
      all.most_last[l] = std::max(all.most_last[l], behind.most_last[l]);
    }
  };
  if (node.left != none) {
    const Summary own = std::exchange(all, nodes_[node.left].all);
    add(own);
  }
  if (node.right != none) add(nodes_[node.right].all);
  node.all = all;
}

REEF_INLINE Occupancy::Index Occupancy::insert_below(Index at, Index node) {
  if (at == none) return node;
  if (nodes_[node].order > nodes_[at].order) {
    std::tie(nodes_[node].left, nodes_[node].right) = split(at, nodes_[node].key());
    update(node);
    return node;
  }
  Index& child = nodes_[node].key() < nodes_[at].key() ? nodes_[at].left : nodes_[at].right;
  child = insert_below(child, node);
  update(at);
  return at;
}

REEF_INLINE std::pair<Occupancy::Index, Occupancy::Index> Occupancy::split(
    Index at, const std::pair<Bytes, std::int64_t>& key) {
  if (at == none) return {none, none};
  if (key < nodes_[at].key()) {
    const auto [before, behind] = split(nodes_[at].left, key);
    nodes_[at].left = behind;
    update(at);
    return {before, at};
  }
  const auto [before, behind] = split(nodes_[at].right, key);
  nodes_[at].right = before;
  update(at);
  return {at, behind};
}

}  // namespace reef::inline v0::schedule::detail
