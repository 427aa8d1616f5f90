#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/core/units.hpp>
#include <reef/schedule/detail/deriver.hpp>

namespace reef::inline v0::schedule::detail {

/// When a region needs its bytes, whatever the speed of the lanes.
struct Lifetime {
  std::int64_t first = -1;     ///< its first access
  Clock known = before_all();  ///< what is complete before any of its accesses
  Clock last = before_all();   ///< its last access on each lane

  static constexpr Lifetime always() {
    Lifetime life;
    life.last.fill(INT64_MAX);
    return life;
  }

  /// Every access to the one is complete when any to the other starts.
  [[nodiscard]] bool before(const Lifetime& other) const {
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (last[l] > other.known[l]) return false;
    }
    return true;
  }
};

/// What lies where in an arena: regions by address, of which many may have the same bytes at different times.
///
/// A search tree in which each node knows of all below it where they lie and when they are alive, at the
/// least and at the most. So what a search meets as a whole, or not at all, it does not go into: of
/// micro-batches, which come one after the other to the same few places, it looks at some.
///
/// | cost | O(log regions) where few bounds of places or lives divide what lies there; O(regions) at most |
class Occupancy {
public:
  /// The lowest offset at which so many bytes lie beside all that is alive at the same time.
  [[nodiscard]] Bytes lowest_offset(Bytes bytes, const Lifetime& life) const {
    Search search{bytes, life};
    visit(root_, search);
    looked_at_ += search.looked_at;
    return search.offset;
  }

  void insert(ByteRange range, const Lifetime& life) {
    const auto node = static_cast<Index>(nodes_.size());
    // Any order that looks random, and is the same in every run, keeps the tree shallow.
    std::uint64_t order = (node + 1ULL) * 0x9E3779B97F4A7C15ULL;
    order = (order ^ (order >> 31)) * 0xBF58476D1CE4E5B9ULL;
    nodes_.push_back(
        {range.begin, round_up(range.end, arena_alignment), life, order ^ (order >> 29)});
    update(node);
    root_ = insert_below(root_, node);
  }

  /// Nodes that all searches so far have looked at.
  [[nodiscard]] std::uint64_t looked_at() const { return looked_at_; }

private:
  using Index = std::uint32_t;
  static constexpr Index none = ~Index{0};

  /// Of a node and all below it.
  struct Summary {
    Bytes begin = 0;
    Bytes end = 0;   ///< aligned
    Bytes hole = 0;  ///< at least the widest between what begins later and all before that
    Clock least_known, most_known, least_last, most_last;
  };
  struct Node {
    Bytes begin = 0;
    Bytes end = 0;  ///< aligned
    Lifetime life{};
    std::uint64_t order = 0;  ///< above those of its children
    Index left = none;
    Index right = none;
    Summary all{};

    /// By address, and there by time.
    [[nodiscard]] auto key() const { return std::pair(begin, life.first); }
  };
  struct Search {
    Bytes bytes;
    const Lifetime& life;
    Bytes offset = 0;
    bool found = false;
    std::uint64_t looked_at = 0;
  };

  static bool any_above(const Clock& a, const Clock& b) {
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (a[l] > b[l]) return true;
    }
    return false;
  }

  void visit(Index index, Search& search) const {
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

  void update(Index index) {
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

  Index insert_below(Index at, Index node) {
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

  /// What comes before a key, and the rest.
  std::pair<Index, Index> split(Index at, const std::pair<Bytes, std::int64_t>& key) {
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

  std::vector<Node> nodes_;
  Index root_ = none;
  mutable std::uint64_t looked_at_ = 0;
};

}  // namespace reef::inline v0::schedule::detail
