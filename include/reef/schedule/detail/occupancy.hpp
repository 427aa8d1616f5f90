#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/core/units.hpp>
#include <reef/schedule/detail/deriver.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

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
  [[nodiscard]] bool before(const Lifetime& other) const;
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
  /// A region that is alive always lies behind those before it, and below all others: returns its offset.
  Bytes take_for_good(Bytes bytes);

  /// The lowest offset at which so many bytes lie beside all that is alive at the same time.
  [[nodiscard]] Bytes lowest_offset(Bytes bytes, const Lifetime& life) const;

  void insert(ByteRange range, const Lifetime& life);

  /// There is room for so many, as for a vector.
  void reserve(std::size_t regions) { nodes_.reserve(regions); }

  /// Nodes that all searches so far have looked at.
  [[nodiscard]] std::uint64_t looked_at() const { return looked_at_; }

private:
  using Index = std::uint32_t;
  static constexpr Index none = ~Index{0};

  /// Bounds of some lives.
  struct Times {
    Clock least_known, max_known, least_last, max_last;

    void add(const Times& other);
    void add(const Lifetime& life);
  };
  /// Of a node and all below it.
  struct Summary {
    Bytes begin = 0;
    Bytes end = 0;   ///< aligned
    Bytes hole = 0;  ///< at least the widest between what begins later and all before that
    Times times;
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

  static bool any_above(const Clock& a, const Clock& b);

  void visit(Index index, Search& search) const;

  /// What is known of all below a node, anew; and of that where they lie.
  void update(Index index);
  void update_places(Index index);

  Index insert_below(Index at, Index node);

  /// What comes before a key, and the rest.
  std::pair<Index, Index> split(Index at, const std::pair<Bytes, std::int64_t>& key);

  Bytes taken_ = 0;  // for good, from the begin of the arena
  std::vector<Node> nodes_;
  Index root_ = none;
  mutable std::uint64_t looked_at_ = 0;
};

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/detail/occupancy.ipp>
#endif
