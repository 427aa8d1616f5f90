#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/detail/fitted_stages.hpp>
#include <reef/run/fenced_stages.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

inline constexpr std::size_t max_cut_anywhere = 600;  // positions: what is foreseen of parts grows with their square

/// The stages of a topology as the devices of a pipeline: a stage is as fast, has as much memory and links as good as
/// the least of its replicas.
inline void set_devices(plan::PipelineProblem& problem, const Topology& topology, const RankFigures& ranks) {
  const int stages = topology.stages;
  problem.links = {stages, {}, {}, {}};
  for (int a = 0; a < stages; ++a) {
    double speed = (std::numeric_limits<double>::max)();
    Bytes memory = (std::numeric_limits<Bytes>::max)();
    for (int replica = 0; replica < topology.replicas; ++replica) {
      const auto rank = static_cast<std::size_t>(topology.rank(replica, a));
      speed = (std::min)(speed, ranks.speeds.empty() ? 1 : ranks.speeds[rank]);
      if (!ranks.memories.empty()) memory = (std::min)(memory, ranks.memories[rank]);
    }
    problem.speed.push_back(speed * 1e9);  // operations are nanoseconds at speed 1
    problem.capacity.push_back(memory);
    for (int b = 0; b < stages; ++b) {
      Seconds latency = 0;
      double rate = 1e18;
      for (int replica = 0; replica < topology.replicas && a != b; ++replica) {
        const int from = topology.rank(replica, a);
        const int to = topology.rank(replica, b);
        // Activations go one way, gradients the other.
        latency =
            (std::max)({latency, ranks.links.latency(from, to), ranks.links.latency(to, from)});
        rate = (std::min)({rate, ranks.links.rate(from, to), ranks.links.rate(to, from)});
      }
      problem.links.latencies.push_back(latency);
      problem.links.rates.push_back(rate);
    }
  }
}

REEF_INLINE void validate(const RankFigures& figures, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  const auto is_of_all = [count](const auto& list) { return list.empty() || list.size() == count; };
  if (!is_of_all(figures.speeds) || !is_of_all(figures.memories) || figures.links.devices != ranks) {
    throw OptionError("reef::run: there are ", figures.speeds.size(), " speeds, ", figures.memories.size(),
                      " memories and a network of ", figures.links.devices, " for ", ranks,
                      " ranks.\n  fix: one of each for every rank; of speeds and memories also none.");
  }
  figures.links.validate();
  for (const double speed : figures.speeds) {
    if (within(speed, 1e-9, 1e9)) continue;
    throw OptionError("reef::run: a rank has speed ", speed, ".\n  fix: from 1e-9 to 1e9, 1 where times hold.");
  }
}

}  // namespace detail

namespace detail {

/// A model between positions as operators of a pipeline, whose devices are the stages of a topology. Its memory is
/// estimated.
inline plan::PipelineProblem fenced_problem(const graph::Dag& dag, const std::vector<Seconds>& times,
                                            const std::vector<int>& positions, const Topology& topology,
                                            const RankFigures& ranks, int micro_batches) {
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  const profile::Profile workload = graph::workload(dag);
  const auto held = static_cast<Bytes>(std::clamp(micro_batches, 1, topology.stages));
  plan::PipelineProblem problem;
  problem.micro_batches = micro_batches;
  for (std::size_t i = 0; i + 1 < positions.size(); ++i) {
    double time = 0;
    Bytes memory = 0;
    for (int node = positions[i]; node < positions[i + 1]; ++node) {
      const auto& entry = workload.operators[static_cast<std::size_t>(node)];
      time += times[static_cast<std::size_t>(node)];
      memory += entry.parameter_bytes + 3 * entry.gradient_bytes + held * entry.saved_bytes;
    }
    problem.flops.push_back(time * 1e9);
    problem.memory.push_back(memory);
    problem.cut.push_back(i > 0 ? static_cast<double>(crossing[static_cast<std::size_t>(positions[i])]) : 0);
  }
  problem.cut.push_back(0);
  set_devices(problem, topology, ranks);
  return problem;
}

/// The layout of `needs`, cut at narrow positions, or where that has none that fits, at any.
inline plan::PipelinePlan fitted_plan(const graph::Dag& dag, const std::vector<Seconds>& times,
                                      std::vector<int>& positions, const Topology& topology, const RankFigures& ranks,
                                      int micro_batches, const StageNeeds& needs) {
  std::string why;
  for (;;) {
    FittedStages search(dag, positions, topology, fenced_problem(dag, times, positions, topology, ranks, micro_batches),
                        needs);
    plan::PipelinePlan found = search.best();
    if (found.feasible) return found;
    if (why.empty()) why = found.why;
    const auto all = static_cast<std::size_t>(dag.node_count()) + 1;
    if (positions.size() == all || all > max_cut_anywhere) break;
    positions.resize(all);
    std::iota(positions.begin(), positions.end(), 0);
  }
  throw OptionError(
      "reef::run: no layout of ", topology.stages,
      " stages was found that fits the memory of all ranks. Of those that were "
      "placed, the one that lacks least: ",
      why,
      ".\n  fix: more memory there, a smaller model, micro-batches of fewer samples, an order that holds fewer of "
      "them at once (1f1b), or a policy that swaps.");
}

}  // namespace detail

REEF_INLINE FencedStages fenced_stages(const graph::Dag& dag, const std::vector<Seconds>& times,
                                       const Topology& topology, const RankFigures& ranks, int micro_batches,
                                       const StageNeeds& needs) {
  topology.validate_ranks();
  detail::validate(ranks, topology.ranks());
  const int stages = topology.stages;
  std::vector<int> positions = narrow_positions(dag, stages);
  positions.insert(positions.begin(), 0);
  const plan::PipelineProblem problem = detail::fenced_problem(dag, times, positions, topology, ranks, micro_batches);
  FencedStages result{topology, {}, {}, 0};
  const bool is_bounded =
      std::any_of(ranks.memories.begin(), ranks.memories.end(),
                  [](Bytes memory) { return memory != (std::numeric_limits<Bytes>::max)(); });
  if (needs && is_bounded) {
    const plan::PipelinePlan found = detail::fitted_plan(dag, times, positions, topology, ranks, micro_batches, needs);
    result.topology = detail::topology_of(topology, found.stages, positions);
    result.time = found.time;
  } else {
    const plan::PipelinePlan every = plan::op_fence(problem, {.effort = 1, .every_device = true});
    if (!every.feasible) {
      throw OptionError("reef::run: the model does not fit ", stages, " stages: ", every.why,
                        ".\n  fix: more memory, a smaller model, or micro-batches of fewer samples.");
    }
    result.topology = detail::topology_of(topology, every.stages, positions);
    result.time = every.time;
  }

  const plan::PipelinePlan some = plan::op_fence(problem, {.effort = 1});
  if (!some.feasible || some.time.pipelined >= result.time.pipelined * (1 - 1e-9)) return result;
  result.time_without = some.time.pipelined;
  for (int device = 0; device < stages; ++device) {
    const bool used = std::any_of(some.stages.begin(), some.stages.end(),
                                  [device](const plan::Stage& stage) { return stage.device == device; });
    for (int replica = 0; replica < topology.replicas && !used; ++replica) {
      result.spare.push_back(topology.rank(replica, device));
    }
  }
  std::sort(result.spare.begin(), result.spare.end());
  return result;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
