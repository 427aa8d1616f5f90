#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/detail/allocation_search.hpp>
#include <reef/plan/detail/in_parallel.hpp>
#include <reef/plan/detail/link_weights.hpp>

namespace reef::inline v0::plan {

namespace detail {

/// Shapes to choose from, of so many devices that have room: all where speeds say what an idle device
/// costs, else those that leave the fewest devices idle.
inline std::vector<AllocationProblem> shapes_of(const AllocationProblem& problem) {
  std::vector<AllocationProblem> shapes;
  int fewest = std::numeric_limits<int>::max();
  for (int stages = 1; stages <= problem.network.devices; ++stages) {
    AllocationProblem shape = problem.in_shape(stages, 1);
    int room = 0;
    for (int d = 0; d < problem.network.devices; ++d) {
      const bool fits = problem.memories.empty() || problem.memories.data()[d] >= shape.stage_bytes;
      room += fits ? 1 : 0;
    }
    if (room < stages) continue;
    shape = problem.in_shape(stages, room / stages);
    const int idle = problem.network.devices - stages * shape.pipelines;
    if (problem.stage_flops <= 0) {
      if (idle > fewest) continue;
      if (idle < fewest) shapes.clear();
      fewest = idle;
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// A shape with its search, over the devices that have room.
struct ShapeSearch {
  AllocationProblem problem;
  std::vector<int> devices;
  std::unique_ptr<AllocationSearch> search;

  ShapeSearch(AllocationProblem given, const AllocationOptions& options)
      : problem(std::move(given)) {
    for (int d = 0; d < problem.network.devices; ++d) {
      if (problem.memories.empty() || problem.memories.data()[d] >= problem.stage_bytes) {
        devices.push_back(d);
      }
    }
    if (!fits()) return;
    search = std::make_unique<AllocationSearch>(link_weights(problem).of(devices), problem.stages,
                                                problem.pipelines, options.seed,
                                                threads_of(options.threads));
  }

  [[nodiscard]] bool fits() const {
    return std::int64_t{problem.stages} * problem.pipelines <=
           static_cast<std::int64_t>(devices.size());
  }
};

}  // namespace detail

/// Places the stages of D_DP pipelines on devices so that an iteration communicates for as short as can
/// be found (Eq. 1 to 4, see allocation_cost).
///
/// | method   | structured layouts, replica exchange on the cost itself, branch and bound over classes of  |
/// |          | interchangeable devices (detail/allocation_search.hpp)                                      |
/// | exact    | wherever branch and bound ends within its work: small networks, and those of few classes   |
/// | bound    | always (detail/allocation_bound.hpp); `optimal` where it is met or the search ended        |
/// | same     | for the same problem, seed and effort, whatever the threads; names and order of devices    |
/// |          | change no cost, since devices are sorted by the structure of their links first              |
/// | shape    | with any_shape every D_PP x floor(N / D_PP) gets an effort, the better half a second, ...   |
/// | budget   | the last whole effort within it; the layouts are always finished                            |
/// | errors   | OptionError, naming the field; too few devices with room are an answer                      |
///
/// Source: Yuan et al., arXiv 2206.01288, section 3, for the problem. The search is ours.
inline Allocation allocate(const AllocationProblem& problem,
                           const AllocationOptions& options = {}) {
  problem.validate();
  if (!within(options.budget, 0, 1e9)) {
    throw OptionError("reef::plan::allocate: the budget is ", options.budget,
                      " s.\n  fix: from 0 to 1e9 s.");
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
  std::vector<detail::ShapeSearch> searches;
  const std::vector<AllocationProblem> shapes =
      options.any_shape ? detail::shapes_of(problem) : std::vector{problem};
  for (const AllocationProblem& shape : shapes) searches.emplace_back(shape, options);
  std::erase_if(searches, [](const detail::ShapeSearch& shape) { return !shape.fits(); });
  if (searches.empty()) {
    const std::string needed = options.any_shape
                                   ? std::string("any shape needs more")
                                   : concat(problem.stages, " x ", problem.pipelines, " need ",
                                            std::int64_t{problem.stages} * problem.pipelines);
    answer.why = concat(needed, " devices with room for a stage; there are ",
                        problem.network.devices, " devices");
    return answer;
  }
  Seconds bound = std::numeric_limits<Seconds>::infinity();
  const auto by_cost = [](const detail::ShapeSearch& a, const detail::ShapeSearch& b) {
    return a.search->cost().total() < b.search->cost().total();
  };
  int wanted = options.effort;
  if (wanted < 0) wanted = options.budget > 0 ? std::numeric_limits<int>::max() : default_effort;
  std::size_t active = searches.size();
  const auto report = [&] {
    if (!options.progress) return;
    options.progress(
        answer.effort,
        std::min_element(searches.begin(), searches.end(), by_cost)->search->cost().total());
  };
  report();
  const auto ended = [&] {
    return std::all_of(searches.begin(), searches.begin() + static_cast<std::ptrdiff_t>(active),
                       [](const detail::ShapeSearch& shape) { return shape.search->optimal(); });
  };
  while (answer.effort < wanted && !ended() && !stop()) {
    bool finished = true;
    for (std::size_t i = 0; i < active && finished; ++i)
      finished = searches[i].search->advance(stop);
    if (!finished) break;
    ++answer.effort;
    report();
    std::stable_sort(searches.begin(), searches.begin() + static_cast<std::ptrdiff_t>(active),
                     by_cost);
    active = (active + 1) / 2;
  }
  for (const detail::ShapeSearch& shape : searches)
    bound = std::min(bound, shape.search->lower_bound());
  const detail::ShapeSearch& best = *std::min_element(searches.begin(), searches.end(), by_cost);
  answer.feasible = true;
  answer.stages = best.problem.stages;
  answer.pipelines = best.problem.pipelines;
  answer.cost = best.search->cost();
  answer.lower_bound = std::min(bound, answer.cost.total());
  answer.optimal = answer.lower_bound == answer.cost.total();
  answer.sigma = best.search->sigma();
  for (auto& pipeline : answer.sigma) {
    for (int& device : pipeline) device = best.devices.data()[device];
  }
  return answer;
}

}  // namespace reef::inline v0::plan
