#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/plan/detail/allocation_bound.hpp>
#include <reef/plan/detail/link_weights.hpp>
#include <reef/plan/detail/spanning_tree.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Devices in the order in which Prim's tree takes them: every single-linkage cluster is a stretch of it.
inline std::vector<int> linkage_order(const LinkWeights& weights) {
  std::vector<int> order{0};
  for (const TreeEdge& edge : spanning_tree(weights.size, weights.pp)) order.push_back(edge.b);
  return order;
}

/// Clusters at the widest gaps between links of the spanning tree: lists of devices in linkage order, larger
/// clusters first.
inline std::vector<std::vector<std::vector<int>>> clusterings(const LinkWeights& weights,
                                                              std::size_t most) {
  const std::vector<TreeEdge> tree = ascending_tree(weights);
  std::vector<std::pair<double, std::size_t>> gaps;  // by ratio: edges below the index are within
  for (std::size_t e = 1; e < tree.size(); ++e) {
    if (tree[e].weight > tree[e - 1].weight) {
      gaps.emplace_back(-tree[e].weight / (std::max)(tree[e - 1].weight, 1e-300), e);
    }
  }
  std::sort(gaps.begin(), gaps.end());
  std::vector<std::size_t> levels{tree.size()};
  for (const auto& [ratio, level] : gaps) {
    if (levels.size() < most) levels.push_back(level);
  }
  const std::vector<int> order = linkage_order(weights);
  std::vector<std::vector<std::vector<int>>> result;
  for (const std::size_t level : levels) {
    std::vector<int> label(order.size());
    std::iota(label.begin(), label.end(), 0);
    const auto root = [&](int v) {
      while (label.data()[v] != v) v = label.data()[v] = label.data()[label.data()[v]];
      return v;
    };
    for (std::size_t e = 0; e < level; ++e) label.data()[root(tree[e].a)] = root(tree[e].b);
    std::vector<std::vector<int>> clusters;
    std::vector<int> number(order.size(), -1);
    for (const int device : order) {
      int& at = number.data()[root(device)];
      if (at < 0) {
        at = static_cast<int>(clusters.size());
        clusters.emplace_back();
      }
      clusters.data()[at].push_back(device);
    }
    std::stable_sort(clusters.begin(), clusters.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
    result.push_back(std::move(clusters));
  }
  return result;
}

/// Layouts for structured networks: the stages are cut into blocks of `run` stages, and each cluster fills
/// `run` stages of one pipeline after the other, block by block; what is left of clusters comes last.
/// run = S makes clusters pipelines, run = 1 makes them groups, and in between a cluster is split.
///
/// | result | [stage * D + pipeline], followed by the devices that are left out |
inline std::vector<int> block_layout(const std::vector<std::vector<int>>& clusters, int stages,
                                     int pipelines, int run) {
  std::vector<int> order;
  std::vector<int> rest;
  for (const std::vector<int>& cluster : clusters) {
    const auto whole = static_cast<std::ptrdiff_t>(cluster.size()) / run * run;
    order.insert(order.end(), cluster.begin(), cluster.begin() + whole);
    rest.insert(rest.end(), cluster.begin() + whole, cluster.end());
  }
  order.insert(order.end(), rest.begin(), rest.end());
  std::vector<int> at(order.size());
  int next = 0;
  for (int first = 0; first < stages; first += run) {
    const int last = (std::min)(stages, first + run);
    for (int i = 0; i < pipelines; ++i) {
      for (int j = first; j < last; ++j) at.data()[j * pipelines + i] = order.data()[next++];
    }
  }
  std::copy(order.begin() + next, order.end(), at.begin() + next);
  return at;
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
