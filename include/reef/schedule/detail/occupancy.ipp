#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

#include <reef/core/inline.hpp>
#include <reef/schedule/detail/occupancy.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

REEF_INLINE bool Lifetime::before(const Lifetime& other) const {
  for (std::size_t l = 0; l < lane_count; ++l) {
    if (last[l] > other.known[l]) return false;
  }
  return true;
}

REEF_INLINE Bytes Occupancy::take_for_good(Bytes bytes) {
  if (bytes == 0) return 0;
  return std::exchange(taken_, round_up(taken_ + bytes, arena_alignment));
}

REEF_INLINE Bytes Occupancy::lowest_offset(Bytes bytes, const Lifetime& life) const {
  if (bytes == 0) return 0;
  Search search{bytes, life, taken_};
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
  if (all.end <= search.offset) return;  // too low
  const Lifetime& life = search.life;
  const Times& times = all.times;
  if (!any_above(times.max_last, life.known) || !any_above(life.last, times.least_known)) {
    return;  // all of it before, or all after
  }
  const bool meets_all =
      any_above(times.least_last, life.known) && any_above(life.last, times.max_known);
  if (meets_all && all.hole < search.bytes) {
    search.offset = (std::max)(search.offset, all.end);
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
  node.all.times = {node.life.known, node.life.known, node.life.last, node.life.last};
  for (const Index child : {node.left, node.right}) {
    if (child != none) node.all.times.add(nodes_[child].all.times);
  }
  update_places(index);
}

REEF_INLINE void Occupancy::Times::add(const Times& other) {
  for (std::size_t l = 0; l < lane_count; ++l) {
    least_known[l] = (std::min)(least_known[l], other.least_known[l]);
    max_known[l] = (std::max)(max_known[l], other.max_known[l]);
    least_last[l] = (std::min)(least_last[l], other.least_last[l]);
    max_last[l] = (std::max)(max_last[l], other.max_last[l]);
  }
}

REEF_INLINE void Occupancy::Times::add(const Lifetime& life) {
  for (std::size_t l = 0; l < lane_count; ++l) {
    least_known[l] = (std::min)(least_known[l], life.known[l]);
    max_known[l] = (std::max)(max_known[l], life.known[l]);
    least_last[l] = (std::min)(least_last[l], life.last[l]);
    max_last[l] = (std::max)(max_last[l], life.last[l]);
  }
}

REEF_INLINE void Occupancy::update_places(Index index) {
  Node& node = nodes_[index];
  Summary& all = node.all;
  all.begin = node.left == none ? node.begin : nodes_[node.left].all.begin;
  all.end = node.left == none ? node.end : nodes_[node.left].all.end;
  all.hole = node.left == none ? 0 : nodes_[node.left].all.hole;
  const auto add = [&all](Bytes begin, Bytes end, Bytes hole) {
    all.hole = (std::max)(all.hole, hole);
    if (begin > all.end) all.hole = (std::max)(all.hole, begin - all.end);
    all.end = (std::max)(all.end, end);
  };
  if (node.left != none) add(node.begin, node.end, 0);
  if (node.right == none) return;
  const Summary& behind = nodes_[node.right].all;
  add(behind.begin, behind.end, behind.hole);
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
  nodes_[at].all.times.add(nodes_[node].life);
  update_places(at);
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

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
