#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/detail/spanning_tree.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// How many vertices exact_open_path takes: 2^S * S numbers.
inline constexpr int max_exact_stages = 16;

/// A path through all vertices of a complete graph.
struct OpenPath {
  std::vector<int> order;
  Seconds length = 0;
  Seconds bound = 0;  ///< no path is shorter; the length where it is exact
};

inline Seconds length_of(const std::vector<int>& order, const std::vector<Seconds>& edges) {
  Seconds length = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    length += edges[static_cast<std::size_t>(order[i - 1]) * order.size() +
                    static_cast<std::size_t>(order[i])];
  }
  return length;
}

/// Eq. 4: the shortest path, by the dynamic program over sets of vertices of Held and Karp (1962).
///
/// | edges | (S, S) row-major, symmetric                    |
/// | cost  | O(2^S S^2) time, 2^S S numbers of memory       |
inline OpenPath exact_open_path(int size, const std::vector<Seconds>& edges) {
  const auto n = static_cast<std::size_t>(size);
  const std::size_t sets = std::size_t{1} << n;
  std::vector<Seconds> best(sets * n, std::numeric_limits<Seconds>::infinity());
  for (std::size_t v = 0; v < n; ++v) best[(std::size_t{1} << v) * n + v] = 0;
  for (std::size_t set = 1; set < sets; ++set) {
    for (std::size_t last = 0; last < n; ++last) {
      const Seconds here = best[set * n + last];
      if ((set >> last & 1) == 0) continue;
      for (std::size_t next = 0; next < n; ++next) {
        if ((set >> next & 1) != 0) continue;
        Seconds& there = best[(set | std::size_t{1} << next) * n + next];
        there = (std::min)(there, here + edges[last * n + next]);
      }
    }
  }
  OpenPath path;
  std::size_t set = sets - 1;
  std::size_t last = 0;
  for (std::size_t v = 1; v < n; ++v) {
    if (best[set * n + v] < best[set * n + last]) last = v;
  }
  path.length = path.bound = best[set * n + last];
  while (true) {
    path.order.push_back(static_cast<int>(last));
    const Seconds here = best[set * n + last];
    set &= ~(std::size_t{1} << last);
    if (set == 0) break;
    std::size_t before = n;
    for (std::size_t v = 0; v < n && before == n; ++v) {
      if ((set >> v & 1) != 0 && best[set * n + v] + edges[v * n + last] <= here) before = v;
    }
    last = before;
  }
  return path;
}

/// What heuristic_open_path compares at most, in edges: enough for every start of a hundred vertices, and for
/// some rounds of moves of one start of thousands.
inline std::int64_t open_path_work(int size) {
  return (std::max)(std::int64_t{1} << 23, 4 * std::int64_t{size} * size);
}

/// A short path for more vertices: the nearest neighbour from one vertex after the other, then 2-opt moves until
/// none helps, the shortest of all; its bound is the minimum spanning tree.
///
/// | cost | O(S^2) for a start, and for a round of its moves; open_path_work(S) for all of them |
inline OpenPath heuristic_open_path(int size, const std::vector<Seconds>& edges) {
  const auto n = static_cast<std::size_t>(size);
  const auto edge = [&](int a, int b) {
    return edges[static_cast<std::size_t>(a) * n + static_cast<std::size_t>(b)];
  };
  OpenPath best;
  best.length = std::numeric_limits<Seconds>::infinity();
  std::int64_t work = open_path_work(size);
  for (int start = 0; start < size && (start == 0 || work > 0); ++start) {
    work -= std::int64_t{size} * size / 2;
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[0], order[static_cast<std::size_t>(start)]);
    for (std::size_t i = 1; i + 1 < n; ++i) {
      const auto nearest = std::min_element(
          order.begin() + static_cast<std::ptrdiff_t>(i), order.end(),
          [&](int a, int b) { return edge(order[i - 1], a) < edge(order[i - 1], b); });
      std::iter_swap(order.begin() + static_cast<std::ptrdiff_t>(i), nearest);
    }
    const Seconds rounding = 1e-12 * length_of(order, edges);
    for (bool better = true; better;) {
      better = false;
      for (std::size_t i = 0; i + 1 < n && work > 0; ++i) {
        work -= static_cast<std::int64_t>(n - i);
        for (std::size_t j = i + 1; j < n; ++j) {
          Seconds gain = 0;
          if (i > 0) gain += edge(order[i - 1], order[i]) - edge(order[i - 1], order[j]);
          if (j + 1 < n) gain += edge(order[j], order[j + 1]) - edge(order[i], order[j + 1]);
          if (gain <= rounding) continue;
          std::reverse(order.begin() + static_cast<std::ptrdiff_t>(i),
                       order.begin() + static_cast<std::ptrdiff_t>(j) + 1);
          better = true;
        }
      }
    }
    const Seconds length = length_of(order, edges);
    if (length < best.length) {
      best.length = length;
      best.order = order;
    }
  }
  for (const TreeEdge& joined : spanning_tree(size, edges)) best.bound += joined.weight;
  best.bound = (std::min)(best.bound, best.length);
  return best;
}

inline OpenPath open_path(int size, const std::vector<Seconds>& edges) {
  return size <= max_exact_stages ? exact_open_path(size, edges)
                                   : heuristic_open_path(size, edges);
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
