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

/// The properties in which ranks differ.
struct RankFigures {
  std::vector<double> speeds{};   ///< speed by rank: work of t seconds on a rank of speed 1 takes t / speed; empty: 1
  std::vector<Bytes> memories{};  ///< memory by rank; empty: enough of it
  profile::Network links{};       ///< links between ranks
};

/// A placement of stages on uneven ranks that plan::op_fence finds, with its time.
struct FencedStages {
  Topology topology{};        ///< the rank of each stage (rank_at), and the nodes of each stage (bounds)
  plan::PipelineTime time{};  ///< time of a step; time.pipelined is T, of all micro-batches of a replica
  std::vector<int> spare{};   ///< ranks without which T would be less; all have a stage nevertheless
  Seconds time_without = 0;   ///< T without the spare ranks; 0 where there are none
};

namespace detail {

void validate(const RankFigures& figures, int ranks);

}  // namespace detail

/// Cuts a model into the stages of a topology, and orders them, so that a step of uneven ranks on uneven links takes
/// the least time: plan::op_fence with no rank left out, since each holds a stage. Ranks that share a stage stay
/// together.
///
///     C_p  forward and backward of a micro-batch: times of the nodes over the speed of the stage's slowest rank
///     R_p  what crosses to the stage, over the slowest of its links, of either direction: gradients go back meanwhile
///     memory  what `needs` says: a layout that does not fit is none, and others are tried; without `needs`
///             weights, gradients and two moments, and what is saved of as many micro-batches as 1F1B holds at most
///
/// | times  | of run::node_times: of a micro-batch on a rank of speed 1                                     |
/// | cuts   | at narrow_positions, as those of chunk_bounds; on free links equal ranks get the fastest slowest stage |
/// | order  | deterministic: all ranks find the same, given the same, and ask `needs` for the same           |
/// | errors | OptionError: figures that are not of as many ranks as the topology has, more stages than nodes, or a model |
/// |        | that no order of stages was found to have memory for: it names the rank that lacks it in the nearest |
/// | cost   | plan::op_fence, twice: about a second at most of some dozens of stages, unless they are few; `needs` is |
/// |        | called once where all have enough memory, else some dozens of times at most                    |
/// | memory | with up to six stages all orders are searched, with more some: those of op_fence and by memory |
///
/// \code
/// // given: const graph::Dag& dag, const profile::Network& network
/// const run::RankFigures ranks{.speeds = {1, 0.5, 1}, .links = network};
/// const auto found = run::fenced_stages(dag, run::node_times(dag, nullptr), run::Topology(1, 3), ranks, 8);
/// const run::Topology topology = found.topology;  // TrainerOptions::topology
/// \endcode
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 4 (OP-Fence). Deviation: every rank has a stage; those that
/// only slow a step down are named instead.
FencedStages fenced_stages(const graph::Dag& dag, const std::vector<Seconds>& times,
                           const Topology& topology, const RankFigures& ranks, int micro_batches,
                           const StageNeeds& needs = {});

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/fenced_stages.ipp>
#endif
