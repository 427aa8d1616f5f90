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

/// A copy of a shared (tied) trained parameter on a stage that uses it but does not own it. The owner is the stage of
/// its first use.
struct TiedCopy {
  int parameter = 0;
  int stage = 0;
};

/// The plan of training steps on which all ranks agree before the first step: plain data, which every rank builds
/// alike. Its bases are the parts that one policy alone fills in; the other members are for all.
struct StepPlan : PlanOfSwap, PlanOfPipeline, PlanOfCompress, PlanOfOptim {
  const graph::Dag* dag = nullptr;  ///< the graph of the model, which outlives the plan
  Topology topology{};
  int virtual_ranks = 1;  ///< the number of ranks that one process emulates; above 1 only for a process alone
  /// The number of micro-batches of each model copy, or emulated rank, in an accumulation phase.
  std::vector<int> micro_batches;
  /// The links between ranks that planning knows, with the rates that all links of a rank share
  /// (TrainerSettings::network). Not given: plans are made as if messages took no time.
  std::optional<schedule::World> world{};
  bool discrete = false;           ///< true if messages cannot be sent from the device's memory
  schedule::Place persistent_place =
      schedule::Place::device;  ///< device or host memory for data that outlives a step; for a bucket, see place_of()
  /// The most bytes of one message, longer ones are cut: comm::ProgressOptions::piece_bytes.
  Bytes piece_bytes = comm::default_piece_bytes;
  int phases_per_step = 1;  ///< the number of accumulation phases of a step, in each of which a rank runs micro_batches
  Element gradient = Element::float32;  ///< the type in which gradients of parameters are summed and sent
  bool adapts = false;  ///< true if an accumulation phase runs extra micro-batches while it communicates
  /// True if updates wait for the norm of all gradients, even if a policy could do without the norm.
  bool waits_for_global_norm = true;
  /// True if the optimizer can update weights within a step, should the pipeline ask for it (weight_versions).
  bool updates_within_a_step =
      true;
  std::vector<Activations> activations{};  ///< how each segment keeps its activations; empty: Activations::keep for all
  std::uint64_t agreed = 0;  ///< a hash of all ranks' programs, sent in messages; set once ranks have compared it

  graph::ParameterLayout layout{};
  std::vector<graph::Segment> segments{};
  /// The segments with backwards split in an input and a weight half; empty: none is split.
  std::vector<graph::Segment> halves{};
  std::vector<Bucket> buckets{};
  /// The bucket (set of parameters reduced together) of each parameter; -1: the parameter is frozen, and in no bucket.
  std::vector<int> bucket_of_parameter{};
  std::vector<graph::RemoteEdge> remote_edges{};  ///< the tensors sent between pipeline stages
  /// The copies of trained parameters on other stages, ascending by parameter, then stage.
  std::vector<TiedCopy> tied_copies{};
  /// The versions of weights that stages hold, for a pipeline that updates within a step.
  WeightVersions weight_versions{};
  /// The bucket of each segment: the trained parameters that it is the first to use; -1: there are none.
  std::vector<int> bucket_of_segment{};
  std::vector<int> stage_of_segment{};
  std::vector<int> chunk_of_segment{};   ///< the pipeline chunk of each segment, by Topology
  std::vector<int> position_in_stage{};  ///< number of segments of the same stage that come before each segment

  /// Returns the bytes of one element of the weights; sum_bytes() returns those of a sum: of a gradient, a loss, or
  /// optimizer state.
  [[nodiscard]] Bytes element_bytes() const { return size_of(dag->element); }
  [[nodiscard]] Bytes sum_bytes() const { return size_of(sum_of(dag->element)); }

  /// Returns the bytes of one gradient element as stored and sent: sum_bytes(), or fewer if it is rounded after each
  /// sum.
  [[nodiscard]] Bytes gradient_bytes() const { return size_of(gradient); }
  [[nodiscard]] bool rounds_gradients() const { return gradient_bytes() < sum_bytes(); }

  [[nodiscard]] int ranks() const { return topology.ranks(); }

  /// Splits backwards into an input half and a weight half, for a pipeline that runs them so: sets `halves`.
  void split_backwards();

  /// Return the segments of a stage, and its buckets, ascending.
  [[nodiscard]] std::vector<int> segments_of(int stage) const;
  [[nodiscard]] std::vector<std::size_t> buckets_of(int stage) const;

  /// Returns the pipeline stage that holds a parameter: that of its first use.
  [[nodiscard]] int owner_of(int parameter) const { return stage_of_use(dag->parameter_at(parameter).uses.front()); }
  /// Returns the stage of the operator that has this use of a parameter.
  [[nodiscard]] int stage_of_use(int use) const;

  /// Returns true if no segment of the same stage comes after this one.
  [[nodiscard]] bool is_last_of_stage(std::size_t segment) const {
    const auto at = stage_of_segment.begin() + static_cast<std::ptrdiff_t>(segment);
    return std::find(at + 1, stage_of_segment.end(), *at) == stage_of_segment.end();
  }

  /// Returns the pipeline stage whose segments compute the loss.
  [[nodiscard]] int loss_stage() const;

  /// Returns the memory, host or device, of a bucket's weights, gradients and optimizer state; place_of_segment() that
  /// for a segment.
  [[nodiscard]] schedule::Place place_of(std::size_t bucket) const {
    return place_of_segment(static_cast<std::size_t>(buckets[bucket].segment));
  }
  [[nodiscard]] schedule::Place place_of_segment(std::size_t segment) const {
    return position_in_stage[segment] < swapping.resident_segments ? schedule::Place::device : persistent_place;
  }

  /// Returns how a segment keeps its activations. The last segment of a stage keeps them on the device, since its
  /// backward follows at once, unless the pipeline has an order of its own.
  [[nodiscard]] Activations activations_of(std::size_t segment) const;
  [[nodiscard]] bool recomputes_segment(std::size_t segment) const {
    return recomputes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_segment(std::size_t segment) const {
    return stashes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_some() const;

  /// Returns true if an optimizer keeps master weights: the model's are narrower than sums, or own_master is set.
  [[nodiscard]] bool keeps_master() const { return own_master || element_bytes() < sum_bytes(); }

  /// Returns the ranges [begin, end) of a bucket that its parameters fill without padding, ascending.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> parameters_in(int bucket) const;

  /// Returns the range [first, last) of entries of `micro_batches` for which a process works: its copy of the model, or
  /// the ranks that it emulates.
  [[nodiscard]] std::pair<int, int> folds_of(int rank) const;

  /// Returns the number of micro-batches that a process runs in one gradient accumulation.
  [[nodiscard]] int micro_batches_of(int rank) const {
    const auto [first, last] = folds_of(rank);
    return std::accumulate(micro_batches.begin() + first, micro_batches.begin() + last, 0);
  }

  /// Returns the number of micro-batches in each further iteration of an accumulation phase that adapts its length:
  /// one; with a pipeline as many as in the first, since with fewer its stages would wait longer for each other.
  [[nodiscard]] int micro_batches_of_body(int rank) const {
    return topology.stages > 1 ? micro_batches_of(rank) : 1;
  }

  /// Returns the number of micro-batches of all model copies in an accumulation phase; micro_batches_of_step() that in
  /// a step.
  [[nodiscard]] int micro_batches_in_all() const {
    return std::accumulate(micro_batches.begin(), micro_batches.end(), 0);
  }
  [[nodiscard]] int micro_batches_of_step() const {
    return phases_per_step * micro_batches_in_all();
  }

  /// Returns the number of micro-batches of an accumulation phase that come before the first of this rank's model copy.
  [[nodiscard]] int micro_batches_before(int rank) const {
    const int first = folds_of(rank).first;
    return std::accumulate(micro_batches.begin(), micro_batches.begin() + first, 0);
  }
};

/// Returns true if a process emulates several ranks that would send encoded messages of this sort: it then encodes and
/// decodes them itself, in collectives of one member.
inline bool stands_for_encoded(const StepPlan& plan, schedule::Traffic traffic, std::size_t bucket) {
  return plan.virtual_ranks > 1 && plan.wire_of(traffic).encodes(static_cast<int>(bucket));
}

/// Returns cuts of a model: the bounds of segments with at least `segment_bytes` of parameters each, at positions that
/// fewer bytes cross than neighbouring positions.
///
/// | bounds | the bounds of chunks, or none; all of them are among the cuts  |
/// | order  | ascending, first 0, last the number of nodes                   |
/// | bits   | cuts change no bit of results: gradients are summed use by use |
std::vector<int> choose_cuts(const graph::Dag& dag, Bytes segment_bytes,
                             const std::vector<int>& bounds = {});

/// Returns the plan of training steps of a model that is cut into segments at `cuts`. `micro_batches`: the number for
/// each copy of the model, or for each rank that a lone process stands for.
///
/// Throws OptionError for invalid cuts, an invalid topology or invalid numbers.
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
