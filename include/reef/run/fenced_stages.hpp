#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/pipeline_problem.hpp>
#include <reef/plan/pipeline_time.hpp>
#include <reef/profile/network.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/stage_memory.hpp>
#include <reef/run/topology.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The properties in which ranks differ: speed, memory and links.
struct RankFigures {
  std::vector<double> speeds{};   ///< speed by rank: work of t seconds on a rank of speed 1 takes t / speed; empty: 1
  std::vector<Bytes> memories{};  ///< bytes of device memory by rank; empty: no limit
  profile::Network links{};       ///< the links between ranks
};

/// A placement of pipeline stages on uneven ranks that plan::op_fence finds, with its time.
struct FencedStages {
  Topology topology{};        ///< the rank of each stage (rank_at), and the nodes of each stage (bounds)
  plan::PipelineTime time{};  ///< the times of a step; time.pipelined: all micro-batches of one copy of the model
  std::vector<int> spare{};   ///< the ranks without which a step would be faster; each has a stage nevertheless
  Seconds time_without = 0;   ///< seconds of a step without the spare ranks; 0 if there are none
};

namespace detail {

void validate(const RankFigures& figures, int ranks);

}  // namespace detail

/// Cuts a model into the stages of a topology, and orders them, so that a step of uneven ranks on uneven links takes
/// the least time: plan::op_fence with no rank left out, since each holds a stage. Ranks that share a stage stay
/// together.
///
///     C_p  the time of a micro-batch, forward and backward: sum of node times / speed of the stage's slowest rank
///     R_p  the time of the tensors that cross to stage p, over its slowest link in either direction, since gradients
///          return
///     memory  the result of `needs`, to which the layout must fit. Without `needs`: weights, gradients, two moments,
///             and the saved activations of the most micro-batches that 1F1B holds
///
/// | times  | node_times(): the times of nodes for a micro-batch on a rank of speed 1                                |
/// | cuts   | at narrow_positions, as in chunk_bounds; equal ranks on free links get the fastest slowest stage       |
/// | order  | deterministic: from the same input all ranks get the same result, and call `needs` alike               |
/// | errors | OptionError: figures of another number of ranks, more stages than nodes, or no layout found that fits  |
/// |        | the memory of all ranks: it names the rank that lacks memory in the layout that lacks least            |
/// | cost   | plan::op_fence, twice: about a second at most for some dozens of stages; `needs` is called once if all |
/// |        | ranks have enough memory, otherwise some dozens of times at most                                       |
/// | memory | with `needs`: up to six stages are tried in all orders, more in those of op_fence and by memory        |
///
/// \code
/// // given: const graph::Dag& dag, const profile::Network& network
/// const run::RankFigures ranks{.speeds = {1, 0.5, 1}, .links = network};
/// const auto found = run::fenced_stages(dag, run::node_times(dag, nullptr), run::Topology(1, 3), ranks, 8);
/// const run::Topology topology = found.topology;  // TrainerOptions::topology
/// \endcode
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 4 (OP-Fence). Deviation: every rank has a stage; ranks
/// that only slow a step down are listed in `spare`.
FencedStages fenced_stages(const graph::Dag& dag, const std::vector<Seconds>& times,
                           const Topology& topology, const RankFigures& ranks, int micro_batches,
                           const StageNeeds& needs = {});

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/fenced_stages.ipp>
#endif
