#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return mix(a * 0x9E3779B97F4A7C15U + mix(b + 0x632BE59BD9B4E019U));
}

/// Sorts the vertices of a complete graph by its structure alone, not by how they are numbered: what a search
/// starts from, so that its answer costs the same however a case lists its devices.
///
/// | vertices | (n,) hashes of what a vertex is alone                                             |
/// | pairs    | (n, n) row-major hashes of what leads from one vertex to another; the diagonal is |
/// |          | never read, and where pairs have no direction the matrix is symmetric             |
///
/// Vertices that can be swapped without a change are one group. Groups are sorted by colour refinement; where it
/// leaves a cell of several, one of them is told apart and refinement goes on. Which one is decided by the matrix
/// that comes out, unless they are proven to be interchangeable: by an equal matrix, or by equal pairs with all others.
///
/// Source: the scheme of McKay, Practical graph isomorphism, 1981, without its search for generators.
/// Deviation: after `max_work` visits of a pair the best order so far stands, and what is alike in it keeps the
/// order in which it came: graphs that need more are built for the purpose, or have many hundreds of vertices that
/// refinement cannot tell apart.
class StructuralOrder {
public:
  StructuralOrder(const std::vector<std::uint64_t>& vertices, std::vector<std::uint64_t> pairs) {
    const std::size_t n = vertices.size();
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const std::uint64_t there = pairs[a * n + b];
        const std::uint64_t back = pairs[b * n + a];
        pairs[a * n + b] = mix(there, back);
        pairs[b * n + a] = mix(back, there);
      }
    }
    std::vector<std::vector<int>> groups;
    for (std::size_t v = 0; v < n; ++v) {
      const auto alike = [&](const std::vector<int>& group) {
        const auto first = static_cast<std::size_t>(group[0]);
        return vertices[first] == vertices[v] && interchangeable(pairs, n, first, v);
      };
      const auto group = std::find_if(groups.begin(), groups.end(), alike);
      if (group == groups.end())
        groups.push_back({static_cast<int>(v)});
      else
        group->push_back(static_cast<int>(v));
    }
    size_ = groups.size();
    for (const std::vector<int>& group : groups) {
      const auto first = static_cast<std::size_t>(group[0]);
      const std::uint64_t inner =
          group.size() > 1 ? pairs[first * n + static_cast<std::size_t>(group[1])] : 0;
      own_.push_back(mix(vertices[first], mix(group.size(), inner)));
      for (const std::vector<int>& other : groups)
        pairs_.push_back(pairs[first * n + static_cast<std::size_t>(other[0])]);
    }
    search(own_, false);
    for (const std::size_t group : best_) groups_.push_back(std::move(groups[group]));
  }

  /// Vertices that can be swapped, group by group in the order.
  [[nodiscard]] const std::vector<std::vector<int>>& groups() const { return groups_; }

  /// All vertices.
  [[nodiscard]] std::vector<int> order() const {
    std::vector<int> all;
    for (const std::vector<int>& group : groups_) all.insert(all.end(), group.begin(), group.end());
    return all;
  }

private:
  using Colours = std::vector<std::uint64_t>;
  static constexpr std::uint64_t max_work = 300'000'000;

  static bool interchangeable(const std::vector<std::uint64_t>& pairs, std::size_t n, std::size_t a,
                              std::size_t b) {
    if (pairs[a * n + b] != pairs[b * n + a]) return false;
    for (std::size_t v = 0; v < n; ++v) {
      if (v != a && v != b && pairs[a * n + v] != pairs[b * n + v]) return false;
    }
    return true;
  }

  static std::size_t count(Colours colours) {
    std::sort(colours.begin(), colours.end());
    return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
  }

  /// New colours by old ones and by all pairs with their far ends, until they tell no more apart.
  void refine(Colours& colours) {
    for (std::size_t before = 0, now = count(colours); now != before && now < size_;) {
      Colours next(size_);
      for (std::size_t v = 0; v < size_; ++v) {
        std::uint64_t sum = 0;  // of all others, in any order
        for (std::size_t u = 0; u < size_; ++u) {
          if (u != v) sum += mix(pairs_[v * size_ + u], colours[u]);
        }
        next[v] = mix(colours[v], sum);
      }
      work_ += size_ * size_;
      colours.swap(next);
      before = now;
      now = count(colours);
    }
  }

  /// The smallest cell of several, and of those with as few the one of the least colour.
  static std::vector<std::size_t> cell_of(const Colours& colours) {
    std::map<std::uint64_t, std::vector<std::size_t>> cells;
    for (std::size_t v = 0; v < colours.size(); ++v) cells[colours[v]].push_back(v);
    const std::vector<std::size_t>* chosen = nullptr;
    for (const auto& [colour, cell] : cells) {
      if (cell.size() > 1 && (chosen == nullptr || cell.size() < chosen->size())) chosen = &cell;
    }
    return chosen == nullptr ? std::vector<std::size_t>{} : *chosen;
  }

  /// Returns the mark of the best matrix below; `quick` follows the first of each cell alone.
  std::uint64_t search(Colours colours, bool quick) {
    refine(colours);
    const std::vector<std::size_t> cell = cell_of(colours);
    if (cell.empty() || work_ > max_work) return leaf(colours);
    if (std::all_of(cell.begin() + 1, cell.end(),
                    [&](std::size_t v) { return interchangeable(pairs_, size_, cell[0], v); })) {
      for (std::size_t i = 0; i < cell.size(); ++i) colours[cell[i]] = mix(colours[cell[i]], i + 1);
      return search(std::move(colours), quick);
    }
    std::uint64_t least = ~std::uint64_t{0};
    for (std::size_t i = 0; i < cell.size(); ++i) {
      if (i > 0 && (quick || work_ > max_work)) break;
      Colours told = colours;
      told[cell[i]] = mix(told[cell[i]], 1);
      // With an equal mark an automorphism takes one to the other.
      if (i > 0 && search(told, true) == least) continue;
      least = (std::min)(least, search(std::move(told), quick));
    }
    return least;
  }

  std::uint64_t leaf(const Colours& colours) {
    std::vector<std::size_t> order(size_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return colours[a] < colours[b]; });
    std::uint64_t mark = 0;
    for (const std::size_t a : order) {
      mark = mix(mark, own_[a]);
      for (const std::size_t b : order) {
        if (a != b) mark = mix(mark, pairs_[a * size_ + b]);
      }
    }
    work_ += size_ * size_;
    if (best_.empty() || mark < best_mark_) {
      best_mark_ = mark;
      best_ = std::move(order);
    }
    return mark;
  }

  std::size_t size_ = 0;              // groups
  std::vector<std::uint64_t> own_;    // of a group: its vertex, its size, what is between two of it
  std::vector<std::uint64_t> pairs_;  // (size_, size_), both directions in each
  std::uint64_t work_ = 0;
  std::uint64_t best_mark_ = 0;
  std::vector<std::size_t> best_;
  std::vector<std::vector<int>> groups_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
