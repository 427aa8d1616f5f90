#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/detail/allocation_search.hpp>
#include <reef/plan/detail/in_parallel.hpp>
#include <reef/plan/detail/link_weights.hpp>
#include <reef/plan/detail/shape_searches.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE Allocation allocate(const AllocationProblem& problem,
                                const AllocationOptions& options) {
  problem.validate();
  if (!within(options.budget, 0, 1e9)) {
    throw OptionError("reef::plan::allocate: the budget is ", options.budget,
                      " s.\n  fix: from 0 to 1e9 s.");
  }
  if (options.effort < -1) {
    throw OptionError("reef::plan::allocate: the effort is ", options.effort,
                      ".\n  fix: -1, or at least 0.");
  }
  if (options.any_shape && problem.stage_flops > 0 &&
      problem.network.devices > max_devices_of_any_shape) {
    throw OptionError("reef::plan::allocate: any shape of ", problem.network.devices,
                      " devices with stage_flops.\n  fix: at most ", max_devices_of_any_shape,
                      " devices, or a shape.");
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto stop = [&] {
    return options.budget > 0 &&
           std::chrono::duration<double>(Clock::now() - start).count() >= options.budget;
  };
  Allocation answer;
  answer.stages = problem.stages;
  answer.pipelines = problem.pipelines;
  detail::ShapeSearches searches(problem, options,
                                 detail::max_shape_searches(problem.network.devices));
  if (searches.empty()) {
    const std::string needed = options.any_shape
                                   ? std::string("any shape needs more")
                                   : concat(problem.stages, " x ", problem.pipelines, " need ",
                                            std::int64_t{problem.stages} * problem.pipelines);
    answer.why = concat(needed, " devices with room for a stage; there are ",
                        problem.network.devices, " devices");
    return answer;
  }
  int wanted = options.effort;
  if (wanted < 0) wanted = options.budget > 0 ? (std::numeric_limits<int>::max)() : default_effort;
  const auto report = [&] {
    if (options.progress) options.progress(answer.effort, searches.best().cost());
  };
  report();
  while (answer.effort < wanted && !searches.ended() && !stop()) {
    if (!searches.advance(stop)) break;
    ++answer.effort;
    report();
  }
  const detail::ShapeSearch& best = searches.best();
  answer.feasible = true;
  answer.stages = best.shape.stages;
  answer.pipelines = best.shape.pipelines;
  answer.cost = best.search->cost();
  answer.lower_bound = (std::min)(searches.lower_bound(), answer.cost.total());
  answer.optimal = answer.lower_bound == answer.cost.total();
  answer.sigma = best.search->sigma();
  for (auto& pipeline : answer.sigma) {
    for (int& device : pipeline) device = best.devices.data()[device];
  }
  return answer;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
