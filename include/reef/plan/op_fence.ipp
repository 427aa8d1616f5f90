#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/plan/detail/bottleneck_sweep.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/fence_order.hpp>
#include <reef/plan/detail/free_split.hpp>
#include <reef/plan/detail/op_fence_search.hpp>
#include <reef/plan/detail/order_search.hpp>
#include <reef/plan/detail/split_costs.hpp>
#include <reef/plan/detail/structural_order.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/split_in_order.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE Clusters clusters_of(const PipelineProblem& problem) {
  const int n = problem.devices();
  std::vector<double> rates = problem.links.rates;
  for (int i = 0; i < n; ++i)
    rates[static_cast<std::size_t>(i) * static_cast<std::size_t>(n) + static_cast<std::size_t>(i)] =
        0;
  return clusters(cluster_weights(rates, n, ClusterWeights::log), n);
}

REEF_INLINE std::vector<int> fence_order(const PipelineProblem& problem, const Clusters& clusters) {
  const int n = problem.devices();
  double bytes = 0;
  if (problem.cut.size() > 2) {
    std::vector<double> inner(problem.cut.begin() + 1, problem.cut.end() - 1);
    const auto middle = inner.begin() + static_cast<std::ptrdiff_t>(inner.size() / 2);
    std::nth_element(inner.begin(), middle, inner.end());
    bytes = *middle;
  }
  std::vector<double> times;
  for (int from = 0; from < n; ++from) {
    for (int to = 0; to < n; ++to)
      times.push_back(from == to ? 0 : problem.links.time(from, to, bytes));
  }
  return detail::FenceOrder(times, clusters.labels, clusters.count).best();
}

REEF_INLINE PipelinePlan op_fence(const PipelineProblem& problem, const OpFenceOptions& options) {
  problem.validate();
  if (options.effort < -1 || !within(options.budget, 0, 1e9)) {
    throw OptionError("reef::plan::op_fence: the effort is ", options.effort, " and the budget ",
                      options.budget,
                      " s.\n  fix: an effort of -1 or at least 0, and a budget from 0 to 1e9 s.");
  }
  if (options.every_device && problem.devices() > problem.operators()) {
    PipelinePlan none;
    none.optimal = true;
    none.why = concat("there are ", problem.operators(), " operators for ", problem.devices(),
                      " devices, of which each is to have one");
    return none;
  }
  const std::vector<int> canonical = detail::canonical_devices(problem);
  const PipelineProblem sorted = detail::reordered(problem, canonical);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();  // what it starts from takes time, too
  const auto stop = [&] {
    return options.budget > 0 &&
           std::chrono::duration<double>(Clock::now() - begin).count() >= options.budget;
  };
  constexpr int default_rounds = 4;
  int wanted = options.effort;
  if (wanted < 0) wanted = options.budget > 0 ? (std::numeric_limits<int>::max)() : default_rounds;
  detail::OpFenceSearch search(sorted, options.seed, options.every_device);
  int rounds = 0;
  while (rounds < wanted && !search.proven() && !stop() && search.round(stop)) ++rounds;
  PipelinePlan plan;
  if (search.best().stages.empty()) {
    plan.why = detail::why_infeasible(problem, search.proven());
  } else {
    std::vector<Stage> stages = search.best().stages;
    for (Stage& stage : stages) stage.device = canonical[static_cast<std::size_t>(stage.device)];
    plan = plan_of(problem, std::move(stages));
    plan.lower_bound = search.proven() ? plan.time.pipelined
                                       : (std::min)(search.lower_bound(), plan.time.pipelined);
  }
  plan.optimal = search.proven();
  plan.effort = rounds;
  return plan;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
