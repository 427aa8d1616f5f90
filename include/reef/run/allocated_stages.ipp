#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/allocation_cost.hpp>
#include <reef/run/allocated_stages.hpp>
#include <reef/run/chunk_bounds.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

/// The ranks of a topology that names none, by replica and stage.
inline plan::Placement in_turn(const Topology& topology) {
  plan::Placement placement(static_cast<std::size_t>(topology.replicas));
  for (int rank = 0; rank < topology.ranks(); ++rank)
    placement[static_cast<std::size_t>(rank / topology.stages)].push_back(rank);
  return placement;
}

}  // namespace detail

REEF_INLINE AllocatedStages allocated_stages(const graph::Dag& dag, const Topology& topology,
                                             const profile::Network& links, int micro_batches,
                                             const plan::AllocationOptions& search) {
  if (links.devices != topology.ranks()) {
    throw OptionError("reef::run::allocated_stages: a network of ", links.devices, " devices for ",
                      topology.ranks(),
                      " ranks.\n  fix: links between all ranks, and none of others.");
  }
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  Bytes widest = 0;
  for (const int node : chunk_bounds(dag, node_times(dag, nullptr), topology.stages))
    widest = (std::max)(widest, crossing[static_cast<std::size_t>(node)]);
  Bytes weights = 0;
  for (const graph::Parameter& parameter : dag.parameters) weights += parameter.spec.bytes();

  plan::AllocationProblem problem;
  problem.network = links;
  problem.stages = topology.stages;
  problem.pipelines = topology.replicas;
  problem.activation_bytes = static_cast<double>(micro_batches) * static_cast<double>(widest);
  problem.gradient_bytes = static_cast<double>(weights) / topology.stages;
  const plan::Allocation found = plan::allocate(problem, search);

  AllocatedStages result{topology, found.cost,
                         plan::allocation_cost(problem, detail::in_turn(topology))};
  result.topology.rank_at.clear();
  for (const std::vector<int>& pipeline : found.sigma)
    result.topology.rank_at.insert(result.topology.rank_at.end(), pipeline.begin(), pipeline.end());
  return result;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
