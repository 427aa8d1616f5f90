#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Of a spanning tree: b came by its edge to a.
struct TreeEdge {
  int a = 0;
  int b = 0;
  Seconds weight = 0;
};

/// The minimum spanning tree of a complete graph, its edges in the order in which they join vertices to vertex 0.
///
/// | weights | (size, size) row-major, symmetric; the diagonal is never read |
/// | ties    | the vertex of the lowest number comes first                   |
/// | cost    | O(size^2)                                                     |
///
/// Source: Prim, Shortest connection networks and some generalizations, 1957.
inline std::vector<TreeEdge> spanning_tree(int size, const std::vector<Seconds>& weights) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<Seconds> distance(n, std::numeric_limits<Seconds>::infinity());
  std::vector<int> from(n, 0);
  std::vector<bool> in(n, false);
  std::vector<TreeEdge> edges;
  for (std::size_t k = 0, next = 0; k < n; ++k) {
    in[next] = true;
    if (k > 0) edges.push_back({from[next], static_cast<int>(next), distance[next]});
    const Seconds* const links = weights.data() + next * n;
    std::size_t nearest = n;
    for (std::size_t v = 0; v < n; ++v) {
      if (in[v]) continue;
      if (links[v] < distance[v]) {
        distance[v] = links[v];
        from[v] = static_cast<int>(next);
      }
      if (nearest == n || distance[v] < distance[nearest]) nearest = v;
    }
    next = nearest;
  }
  return edges;
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
