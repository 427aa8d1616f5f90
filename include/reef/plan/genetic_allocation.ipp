#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/plan/detail/allocation_bound.hpp>
#include <reef/plan/detail/arrangement.hpp>
#include <reef/plan/detail/cyclic_moves.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/link_weights.hpp>
#include <reef/plan/genetic_allocation.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE Allocation genetic_allocation(const AllocationProblem& problem,
                                          const GeneticOptions& options) {
  problem.validate();
  const int devices = problem.network.devices;
  if (std::int64_t{problem.stages} * problem.pipelines != devices || !problem.memories.empty()) {
    throw OptionError("reef::plan::genetic_allocation: ", problem.stages, " x ", problem.pipelines,
                      " of ", devices, " devices.\n  fix: a shape that uses all, without cap.");
  }
  if (options.population < 1 || options.trials < 0) {
    throw OptionError("reef::plan::genetic_allocation: a population of ", options.population,
                      " and ", options.trials, " trials.\n  fix: at least 1, and at least 0.");
  }
  const detail::LinkWeights weights = detail::link_weights(problem);
  const detail::CyclicMoves moves(problem, options.gain);
  detail::Draws draws(options.seed, 0);
  using Labels = std::vector<int>;  // the group of each device
  detail::Arrangement best;
  int evaluations = 0;
  bool goes_on = true;
  const auto evaluate = [&](const Labels& labels) {
    std::vector<int> groups(labels.size());
    std::iota(groups.begin(), groups.end(), 0);
    std::stable_sort(groups.begin(), groups.end(),
                     [&](int a, int b) { return labels.data()[a] < labels.data()[b]; });
    detail::Arrangement found = detail::arrange(weights, problem.stages, problem.pipelines, groups);
    const Seconds cost = found.cost.total();
    if (best.at.empty() || cost < best.cost.total()) best = std::move(found);
    ++evaluations;
    if (options.progress) goes_on = options.progress(evaluations, best.cost.total());
    return cost;
  };
  std::vector<Labels> population;
  std::vector<Seconds> scores;
  for (int i = 0; i < options.population && goes_on; ++i) {
    Labels labels;
    for (int d = 0; d < devices; ++d) labels.push_back(d / problem.pipelines);
    draws.shuffle(labels);
    scores.push_back(evaluate(labels));
    population.push_back(std::move(labels));
  }
  for (int trial = 0; trial < options.trials && goes_on; ++trial) {
    const int first = draws.below(options.population);
    const int second = draws.below(options.population);
    Labels child = population.data()[second];
    std::vector<int> order(child.size());
    std::iota(order.begin(), order.end(), 0);
    draws.shuffle(order);
    order.resize(std::min<std::size_t>(order.size(), 5));
    for (const int d : order) child.data()[d] = population.data()[first].data()[d];
    moves.mend_sizes(child);
    moves.improve(child);
    const Seconds score = evaluate(child);
    const Seconds of_first = scores.data()[first];
    if (score > of_first) continue;
    const int worse = of_first > scores.data()[second] ? first : second;
    population.data()[worse] = std::move(child);
    scores.data()[worse] = score;
  }
  Allocation answer;
  answer.feasible = true;
  answer.stages = problem.stages;
  answer.pipelines = problem.pipelines;
  answer.cost = best.cost;
  answer.lower_bound = detail::AllocationBound(weights, problem.stages, problem.pipelines).total();
  answer.lower_bound = (std::min)(answer.lower_bound, answer.cost.total());
  answer.effort = evaluations;
  answer.sigma.assign(static_cast<std::size_t>(problem.pipelines), {});
  for (std::size_t place = 0; place < best.at.size(); ++place) {
    answer.sigma[place % static_cast<std::size_t>(problem.pipelines)].push_back(best.at[place]);
  }
  return answer;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
