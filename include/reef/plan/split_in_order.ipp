#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/plan/detail/bottleneck_sweep.hpp>
#include <reef/plan/detail/ordered_split.hpp>
#include <reef/plan/detail/split_costs.hpp>
#include <reef/plan/split_in_order.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE PipelinePlan plan_of(const PipelineProblem& problem, std::vector<Stage> stages) {
  PipelinePlan plan;
  plan.feasible = problem.fits(stages);
  plan.time = problem.time(stages);
  plan.stages = std::move(stages);
  if (!plan.feasible) plan.why = "a stage needs more memory than its device has";
  return plan;
}

namespace detail {

/// Throws OptionError unless these are devices of the problem, none twice.
inline void require_order(const PipelineProblem& problem, const std::vector<int>& order) {
  std::vector<char> seen(static_cast<std::size_t>(problem.devices()), 0);
  for (const int device : order) {
    if (device >= 0 && device < problem.devices() && seen[static_cast<std::size_t>(device)]++ == 0)
      continue;
    throw OptionError("reef::plan: an order of devices has ", device, ", which is ",
                      device < 0 || device >= problem.devices() ? "none of " : "twice among ",
                      problem.devices(), ".\n  fix: each device once at most, numbered from 0.");
  }
  if (order.empty()) throw OptionError("reef::plan: an order has no device.\n  fix: one at least.");
}

/// Cuts the chain where these shares of a sum by operator end, one for each device of the order.
inline std::vector<Stage> cut_by_share(const std::vector<double>& amounts,
                                       const std::vector<int>& order) {
  const double total = std::accumulate(amounts.begin(), amounts.end(), 0.0);
  std::vector<Stage> stages;
  double sum = 0;
  int first = 0;
  int end = 0;
  for (std::size_t p = 0; p < order.size(); ++p) {
    const double until = total * static_cast<double>(p + 1) / static_cast<double>(order.size());
    const bool last = p + 1 == order.size();
    // An operator goes to where its middle is.
    for (; end < static_cast<int>(amounts.size()); ++end) {
      const double amount = amounts[static_cast<std::size_t>(end)];
      if (!last && sum + amount / 2 >= until) break;
      sum += amount;
    }
    if (end > first) stages.push_back({order[p], first, end});
    first = end;
  }
  return stages;
}

/// What a search over an order finds.
inline PipelinePlan least_in_order(const SplitCosts& costs, OrderedSplit search) {
  Split split = sweep(costs, search).split;
  PipelinePlan plan;
  if (!split.stages.empty()) plan = plan_of(costs.problem(), std::move(split.stages));
  if (!plan.feasible)
    plan.why = "no cut of the chain over the devices in that order fits their memory";
  plan.lower_bound = plan.time.pipelined;
  plan.optimal = true;
  return plan;
}

}  // namespace detail

REEF_INLINE PipelinePlan split_in_order(const PipelineProblem& problem,
                                        const std::vector<int>& order, bool skips) {
  problem.validate();
  detail::require_order(problem, order);
  const detail::SplitCosts costs(problem);
  return detail::least_in_order(costs, {costs, order, skips ? detail::OrderedSplit::any : 1});
}

REEF_INLINE PipelinePlan split_in_order(const PipelineProblem& problem, const std::vector<int>& order,
                                        const StageBegins& earliest) {
  problem.validate();
  detail::require_order(problem, order);
  const bool is_of_all = std::all_of(earliest.begin(), earliest.end(), [&](const std::vector<int>& begins) {
    return begins.size() == problem.flops.size() + 1;
  });
  if (earliest.size() != order.size() || !is_of_all) {
    throw OptionError("reef::plan::split_in_order: there are begins of ", earliest.size(), " stages, and ",
                      order.size(), " devices.\n  fix: one list for each stage, of a number for each end, 0 to ",
                      problem.operators(), ".");
  }
  const detail::SplitCosts costs(problem);
  return detail::least_in_order(costs, {costs, order, 1, earliest});
}

REEF_INLINE PipelinePlan equal_operators(const PipelineProblem& problem,
                                         const std::vector<int>& order) {
  problem.validate();
  detail::require_order(problem, order);
  return plan_of(problem,
                 detail::cut_by_share(std::vector<double>(problem.flops.size(), 1), order));
}

REEF_INLINE PipelinePlan equal_compute(const PipelineProblem& problem,
                                       const std::vector<int>& order) {
  problem.validate();
  detail::require_order(problem, order);
  return plan_of(problem, detail::cut_by_share(problem.flops, order));
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
