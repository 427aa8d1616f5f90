#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/detail/arrangement.hpp>
#include <reef/plan/detail/link_weights.hpp>
#include <reef/plan/detail/spanning_tree.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// The edges of the minimum spanning tree of pp, ascending: at any threshold, the links of at most that
/// weight and the edges of the tree connect the same devices.
inline std::vector<TreeEdge> ascending_tree(const LinkWeights& weights) {
  std::vector<TreeEdge> edges = spanning_tree(weights.size, weights.pp);
  std::stable_sort(edges.begin(), edges.end(),
                   [](const TreeEdge& x, const TreeEdge& y) { return x.weight < y.weight; });
  return edges;
}

/// What no placement can be better than.
///
/// compute, datap: S D devices are used, so the (S D)-th of all devices, by its own time, or by its sum over
/// the D - 1 partners that are cheapest for it, is a lower bound.
///
/// pipelinep: a boundary between two stages that costs at most t has D links of at most t. All such links
/// form paths of at most S devices inside the components of the graph of links of at most t, where a component
/// of s devices has room for s - ceil(s / S) of them. So at most m(t) = floor(sum (s - ceil(s / S)) / D)
/// boundaries cost at most t, and the k-th cheapest costs at least slot k: the least t with m(t) >= k.
struct AllocationBound {
  Seconds compute = 0;
  Seconds datap = 0;
  std::vector<Seconds> boundary_slots;  ///< (S - 1,), ascending

  AllocationBound(const LinkWeights& weights, int stages, int pipelines) {
    const auto used = static_cast<std::size_t>(stages) * static_cast<std::size_t>(pipelines);
    std::vector<Seconds> sums;
    for (int d = 0; d < weights.size; ++d) {
      std::vector<Seconds> terms;
      for (int e = 0; e < weights.size; ++e) {
        if (e != d) terms.push_back(weights.dp_of(d)[e]);
      }
      const auto partners = terms.begin() + (pipelines - 1);
      if (partners != terms.end()) std::nth_element(terms.begin(), partners, terms.end());
      terms.erase(partners, terms.end());
      sums.push_back(sum_in_order(terms));
    }
    std::sort(sums.begin(), sums.end());
    datap = sums[used - 1];
    std::vector<Seconds> times = weights.compute;
    std::sort(times.begin(), times.end());
    compute = times[used - 1];
    fill_slots(weights, stages, pipelines);
  }

  /// The least path that has these edges among its own.
  [[nodiscard]] Seconds path_with(const std::vector<Seconds>& edges) const {
    std::vector<Seconds> given = edges;
    std::sort(given.begin(), given.end());
    std::vector<Seconds> all = given;
    std::vector<Seconds> left = boundary_slots;
    for (const Seconds edge : given) {  // takes the largest slot that it can
      auto slot = std::upper_bound(left.begin(), left.end(), edge);
      left.erase(slot == left.begin() ? slot : slot - 1);
    }
    all.insert(all.end(), left.begin(), left.end());
    return sum_in_order(all);
  }

  [[nodiscard]] Seconds total() const {
    return AllocationCost{compute, datap, path_with({})}.total();
  }

private:
  void fill_slots(const LinkWeights& weights, int stages, int pipelines) {
    std::vector<int> parent(static_cast<std::size_t>(weights.size));
    std::iota(parent.begin(), parent.end(), 0);
    std::vector<int> size(parent.size(), 1);
    const auto root = [&](int v) {
      while (parent.data()[v] != v) v = parent.data()[v] = parent.data()[parent.data()[v]];
      return v;
    };
    const auto room = [&](int s) { return s - (s + stages - 1) / stages; };
    int links = 0;
    for (const TreeEdge& edge : ascending_tree(weights)) {
      const int a = root(edge.a);
      const int b = root(edge.b);
      int& joined = size.data()[a];
      links -= room(joined) + room(size.data()[b]);
      joined += size.data()[b];
      links += room(joined);
      parent.data()[b] = a;
      while (static_cast<int>(boundary_slots.size()) < (std::min)(stages - 1, links / pipelines)) {
        boundary_slots.push_back(edge.weight);
      }
    }
  }
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
