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

/// A placement of stages on ranks that plan::allocate finds, with its cost.
struct AllocatedStages {
  Topology topology{};          ///< the rank of each stage of each replica (rank_at)
  plan::AllocationCost cost{};  ///< time of the messages of a step
  plan::AllocationCost
      cost_in_turn{};  ///< the same time where ranks are placed in the order of their numbers
};

/// Places the stages of a model on ranks, so that ranks which exchange much have good links: replicas of a stage, which
/// reduce gradients, and neighbours of a pipeline, which send activations (plan::allocate).
///
///     c_pp  micro_batches times the most bytes that cross one of the cuts of chunk_bounds, for one a stage
///     c_dp  the bytes of all parameters, over the stages
///
/// | ranks  | are alike but for their links: where they are not, fenced_stages cuts for them             |
/// | links  | between as many devices as the topology has ranks, by rank                                |
/// | order  | deterministic: all ranks find the same, given the same                                    |
/// | cost   | plan::allocate, of `search.effort` rounds                                                 |
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
