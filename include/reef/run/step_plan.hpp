#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/parameter_layout.hpp>
#include <reef/graph/remote_edges.hpp>
#include <reef/graph/segment.hpp>
#include <reef/run/bucket.hpp>
#include <reef/run/choice.hpp>
#include <reef/run/plan_of_compress.hpp>
#include <reef/run/plan_of_optim.hpp>
#include <reef/run/plan_of_pipeline.hpp>
#include <reef/run/plan_of_swap.hpp>
#include <reef/run/topology.hpp>
#include <reef/run/weight_versions.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A copy of a trained parameter on a stage that uses it and does not own it: the stage of its first use does.
struct TiedCopy {
  int parameter = 0;
  int stage = 0;
};

/// The plan that all ranks agree on before the first step. Plain data; every rank builds the same. The parts that one
/// axis alone fills in and reads are the bases; the other members are for all.
struct StepPlan : PlanOfSwap, PlanOfPipeline, PlanOfCompress, PlanOfOptim {
  const graph::Dag* dag = nullptr;  ///< outlives the plan
  Topology topology{};
  int virtual_ranks = 1;  ///< number of ranks that one process stands for; more than 1 only alone
  std::vector<int> micro_batches;  ///< in a phase, by replica, or by virtual rank
  /// The links between ranks that planning knows, and what a rank's links share (TrainerSettings::network). Not given: plans are
  /// made as if messages took no time.
  std::optional<schedule::World> world{};
  bool discrete = false;           ///< messages cannot be made of the device's memory
  schedule::Place persistent_place =
      schedule::Place::device;  ///< place of storages that outlive a step; place_of: by bucket
  Bytes piece_bytes = comm::default_piece_bytes;   ///< comm::ProgressOptions::piece_bytes
  int phases_per_step = 1;                         ///< number of phases, in each of which a rank runs its micro-batches
  Element gradient = Element::float32;  ///< type in which gradients of parameters are summed and sent
  bool adapts = false;                  ///< a phase takes extra micro-batches while it communicates
  /// True if updates wait for the norm of all gradients, also where a policy could do without.
  bool waits_for_global_norm = true;
  bool updates_within_a_step =
      true;  ///< the optimizer can update within a step, where the pipeline asks for it (weight_versions)
  std::vector<Activations> activations{};  ///< choice by segment; empty: all are kept
  std::uint64_t agreed = 0;  ///< hash of the programs of all ranks, once these have compared them: sent in messages

  graph::ParameterLayout layout{};
  std::vector<graph::Segment> segments{};
  std::vector<graph::Segment> halves{};  ///< the segments with backwards in halves; empty: no backward has halves
  std::vector<Bucket> buckets{};
  std::vector<int> bucket_of_parameter{};  ///< -1: the parameter is frozen, and in no bucket
  std::vector<graph::RemoteEdge> remote_edges{};  ///< edges between stages
  std::vector<TiedCopy> tied_copies{};            ///< ascending by parameter, then stage
  WeightVersions weight_versions{};               ///< weight versions of a pipeline that updates within a step
  std::vector<int> bucket_of_segment{};  ///< -1: the segment is not the first to use any trained parameter
  std::vector<int> stage_of_segment{};
  std::vector<int> chunk_of_segment{};   ///< chunk by segment, of the chunks that the topology has
  std::vector<int> position_in_stage{};  ///< by segment: number of segments of its stage that come before it

  /// Returns the bytes of a weight; sum_bytes: of a number that is summed, as gradients of weights, losses, optimizer
  /// state.
  [[nodiscard]] Bytes element_bytes() const { return size_of(dag->element); }
  [[nodiscard]] Bytes sum_bytes() const { return size_of(sum_of(dag->element)); }

  /// Returns the bytes of a gradient that is kept or sent: sum_bytes, unless it is rounded after each sum.
  [[nodiscard]] Bytes gradient_bytes() const { return size_of(gradient); }
  [[nodiscard]] bool rounds_gradients() const { return gradient_bytes() < sum_bytes(); }

  [[nodiscard]] int ranks() const { return topology.ranks(); }

  /// Makes backwards run in halves where a pipeline asks for it.
  void split_backwards();

  /// Returns the segments of a stage, and its buckets, ascending.
  [[nodiscard]] std::vector<int> segments_of(int stage) const;
  [[nodiscard]] std::vector<std::size_t> buckets_of(int stage) const;

  /// Returns the stage that holds a parameter: that of its first use.
  [[nodiscard]] int owner_of(int parameter) const { return stage_of_use(dag->parameter_at(parameter).uses.front()); }
  /// Returns the stage of the operator that has that use of a parameter.
  [[nodiscard]] int stage_of_use(int use) const;

  /// True if no segment of the same stage comes behind this one.
  [[nodiscard]] bool is_last_of_stage(std::size_t segment) const {
    const auto at = stage_of_segment.begin() + static_cast<std::ptrdiff_t>(segment);
    return std::find(at + 1, stage_of_segment.end(), *at) == stage_of_segment.end();
  }

  /// Returns the stage whose segments compute the loss.
  [[nodiscard]] int loss_stage() const;

  /// Returns the place of a bucket's weights, gradients and optimizer state; place_of_segment: of what a segment keeps.
  [[nodiscard]] schedule::Place place_of(std::size_t bucket) const {
    return place_of_segment(static_cast<std::size_t>(buckets[bucket].segment));
  }
  [[nodiscard]] schedule::Place place_of_segment(std::size_t segment) const {
    return position_in_stage[segment] < swapping.resident_segments ? schedule::Place::device : persistent_place;
  }

  /// Returns the activations' choice for a segment. The last segment of a stage keeps, unless the pipeline has an order
  /// of its own, since its backward comes at once.
  [[nodiscard]] Activations activations_of(std::size_t segment) const;
  [[nodiscard]] bool recomputes_segment(std::size_t segment) const {
    return recomputes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_segment(std::size_t segment) const {
    return stashes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_some() const;

  /// True if an optimizer keeps master weights: those of the model are narrower than sums, or own_master is set.
  [[nodiscard]] bool keeps_master() const { return own_master || element_bytes() < sum_bytes(); }

  /// Returns where the parameters of a bucket lie in it: [begin, end) of runs without padding, ascending.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> parameters_in(int bucket) const;

  /// Returns the replicas that a process works for, its own or those that it stands for: [first, last) of
  /// micro_batches.
  [[nodiscard]] std::pair<int, int> folds_of(int rank) const;

  /// Returns the number of micro-batches that a process runs in a phase.
  [[nodiscard]] int micro_batches_of(int rank) const {
    const auto [first, last] = folds_of(rank);
    return std::accumulate(micro_batches.begin() + first, micro_batches.begin() + last, 0);
  }

  /// Returns the number of micro-batches that an adaptive phase takes at once beyond its first ones: one; with a
  /// pipeline as many again, since with fewer its stages would wait longer for each other.
  [[nodiscard]] int micro_batches_of_body(int rank) const {
    return topology.stages > 1 ? micro_batches_of(rank) : 1;
  }

  /// Returns the number of micro-batches of all replicas in a phase; micro_batches_of_step those in a step.
  [[nodiscard]] int micro_batches_in_all() const {
    return std::accumulate(micro_batches.begin(), micro_batches.end(), 0);
  }
  [[nodiscard]] int micro_batches_of_step() const {
    return phases_per_step * micro_batches_in_all();
  }

  /// Returns the number of micro-batches of a phase that come before the first of this rank's replica.
  [[nodiscard]] int micro_batches_before(int rank) const {
    const int first = folds_of(rank).first;
    return std::accumulate(micro_batches.begin(), micro_batches.begin() + first, 0);
  }
};

/// True if a process stands for several ranks that would send encoded messages of that traffic: it then encodes them
/// for itself, by collectives of one member.
inline bool stands_for_encoded(const StepPlan& plan, schedule::Traffic traffic, std::size_t bucket) {
  return plan.virtual_ranks > 1 && plan.wire_of(traffic).encodes(static_cast<int>(bucket));
}

/// Returns cuts of a model: the bounds of segments with at least `segment_bytes` of parameters each, at positions where
/// fewer bytes cross than beside them.
///
/// | bounds | of chunks, where there are any: they are among the cuts               |
/// | order  | ascending, first 0, last the number of nodes                          |
/// | bits   | none change: gradients are folded per use, wherever the cuts are      |
std::vector<int> choose_cuts(const graph::Dag& dag, Bytes segment_bytes,
                             const std::vector<int>& bounds = {});

/// Returns the plan of the segments between the cuts, and of the buckets of their parameters. `micro_batches`: of each
/// replica, or of each rank that a lone process stands for.
///
/// Throws OptionError for impossible cuts, topology or counts.
///
/// \code
/// // given: const graph::Dag& dag
/// const std::vector<int> cuts = run::choose_cuts(dag, 4_MiB);
/// const run::StepPlan plan = run::make_step_plan(dag, cuts, run::Topology(2), 1, {4, 4}, false);
/// \endcode
StepPlan make_step_plan(const graph::Dag& dag, const std::vector<int>& cuts,
                        Topology topology, int virtual_ranks, std::vector<int> micro_batches,
                        bool discrete);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/step_plan.ipp>
#endif
