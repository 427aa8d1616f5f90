#pragma once

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/dag.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/profile/network.hpp>
#include <reef/run/topology.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A placement of pipeline stages on ranks that plan::allocate finds, with its cost.
struct AllocatedStages {
  Topology topology{};          ///< the rank of each stage of each replica (Topology::rank_at)
  plan::AllocationCost cost{};  ///< the time of all messages of a step
  plan::AllocationCost
      cost_in_turn{};  ///< the cost of placing ranks in the order of their numbers, for comparison
};

/// Places the stages of a model on ranks, so that ranks which exchange much have good links: replicas of a stage, which
/// reduce gradients, and neighbours in a pipeline, which send activations. The bytes that plan::allocate counts are
///
///     c_pp  micro_batches times the most bytes that cross a cut of chunk_bounds into as many chunks as stages
///     c_dp  the bytes of all parameters, divided by the number of stages
///
/// | ranks  | must be alike except for their links; fenced_stages is for ranks of uneven speed or memory |
/// | links  | one device for each rank of the topology, numbered as the ranks                            |
/// | order  | deterministic: from the same input all ranks get the same result                           |
/// | cost   | that of plan::allocate with search.effort rounds                                           |
/// | errors | OptionError: links of another number of devices, more stages than the model has nodes      |
///
/// \code
/// // given: const graph::Dag& dag, const profile::Network& links
/// const auto found = run::allocated_stages(dag, run::Topology(2, 2), links, 8);
/// const run::Topology topology = found.topology;  // TrainerOptions::topology
/// \endcode
///
/// Source: Yuan et al., Decentralized Training of Foundation Models in Heterogeneous Environments, arXiv 2206.01288,
/// section 3.
AllocatedStages allocated_stages(const graph::Dag& dag, const Topology& topology,
                                 const profile::Network& links, int micro_batches,
                                 const plan::AllocationOptions& search = {.effort = 4});

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/allocated_stages.ipp>
#endif
