#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/detail/bottleneck_matching.hpp>
#include <reef/plan/detail/link_weights.hpp>
#include <reef/plan/detail/open_path.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// A sum that does not depend on the order of its terms.
inline Seconds sum_in_order(std::vector<Seconds>& terms) {
  std::sort(terms.begin(), terms.end());
  Seconds sum = 0;
  for (const Seconds term : terms) sum += term;
  return sum;
}

/// Eq. 2: what the slowest device of a group takes. The group is `size` devices.
inline Seconds datap_of(const LinkWeights& weights, const int* group, int size) {
  std::vector<Seconds> terms;
  Seconds slowest = 0;
  for (int i = 0; i < size; ++i) {
    const Seconds* const from = weights.dp_of(group[i]);
    terms.clear();
    for (int k = 0; k < size; ++k) {
      if (k != i) terms.push_back(from[group[k]]);
    }
    slowest = (std::max)(slowest, sum_in_order(terms));
  }
  return slowest;
}

/// The cost of devices where they are: at[stage * pipelines + pipeline].
inline AllocationCost cost_of(const LinkWeights& weights, int stages, int pipelines,
                              const std::vector<int>& at) {
  AllocationCost cost;
  std::vector<Seconds> path;
  for (int j = 0; j < stages; ++j) {
    const int* const group = at.data() + static_cast<std::ptrdiff_t>(j) * pipelines;
    cost.datap = (std::max)(cost.datap, datap_of(weights, group, pipelines));
    Seconds slowest = 0;
    for (int i = 0; i < pipelines; ++i) {
      cost.compute = (std::max)(cost.compute, weights.compute_of(group[i]));
      if (j > 0) slowest = (std::max)(slowest, weights.pp_of(group[i - pipelines])[group[i]]);
    }
    if (j > 0) path.push_back(slowest);
  }
  cost.pipelinep = sum_in_order(path);
  return cost;
}

/// Groups in an order, each matched with the one before: at[stage * pipelines + pipeline].
struct Arrangement {
  std::vector<int> at;
  AllocationCost cost;
};

/// Matches each group with the one before it, in the order in which they are. Bottleneck matchings along
/// a path always compose to pipelines.
inline Arrangement match_groups(const LinkWeights& weights, int stages, int pipelines,
                                const std::vector<int>& groups) {
  Arrangement result{groups, {}};
  BottleneckMatching matching(pipelines);
  for (int j = 1; j < stages; ++j) {
    int* const group = result.at.data() + static_cast<std::ptrdiff_t>(j) * pipelines;
    const int* const given = groups.data() + static_cast<std::ptrdiff_t>(j) * pipelines;
    matching.solve(weights, group - pipelines, given);
    for (int c = 0; c < pipelines; ++c) group[matching.row_of(c)] = given[c];
  }
  result.cost = cost_of(weights, stages, pipelines, result.at);
  return result;
}

/// The best order and matchings of a partition (Eq. 3 and 4): exact to max_exact_stages stages, above
/// that the shortest path that heuristic_open_path finds, or the given order where it is shorter.
inline Arrangement arrange(const LinkWeights& weights, int stages, int pipelines,
                           const std::vector<int>& groups) {
  if (stages == 1) return match_groups(weights, stages, pipelines, groups);
  BottleneckMatching matching(pipelines);
  const auto n = static_cast<std::size_t>(stages);
  std::vector<Seconds> edges(n * n);
  const auto group = [&](int j) {
    return groups.data() + static_cast<std::ptrdiff_t>(j) * pipelines;
  };
  for (int j = 0; j < stages; ++j) {
    for (int k = 0; k < j; ++k) {
      const Seconds slowest = matching.solve(weights, group(j), group(k));
      edges[static_cast<std::size_t>(j) * n + static_cast<std::size_t>(k)] = slowest;
      edges[static_cast<std::size_t>(k) * n + static_cast<std::size_t>(j)] = slowest;
    }
  }
  const OpenPath path = open_path(stages, edges);
  std::vector<int> ordered;
  ordered.reserve(groups.size());
  for (const int j : path.order) ordered.insert(ordered.end(), group(j), group(j) + pipelines);
  Arrangement found = match_groups(weights, stages, pipelines, ordered);
  if (stages <= max_exact_stages) return found;
  Arrangement given = match_groups(weights, stages, pipelines, groups);
  return given.cost.total() < found.cost.total() ? given : found;
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
