#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
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
#include <reef/run/parameter_group.hpp>
#include <reef/run/timetable.hpp>
#include <reef/run/topology.hpp>
#include <reef/run/weight_versions.hpp>
#include <reef/run/whole_matrices.hpp>
#include <reef/run/wire_form.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// When ranks that step on their own take an outer step, fragment by fragment.
///
/// | none  | after a step: the next waits for it                                                      |
/// | mix   | beside the next step, whose weights are then mixed with those that have arrived          |
/// | eager | beside the steps until all fragments are due again; until then own weights stand in      |
struct OuterSchedule {
  enum class Overlap : std::uint8_t { none, mix, eager };

  int every = 1;      ///< H: the steps from one outer step of a weight to its next
  int fragments = 1;  ///< F, at most H: equal shares of the weights
  Overlap overlap = Overlap::none;

  /// The same where weights and differences are the same ones at the same step.
  [[nodiscard]] std::string text() const;
};

/// A parameter on a stage that uses it, and is not the one of its first use, which owns it.
struct TiedCopy {
  int parameter = 0;
  int stage = 0;
};

/// What all ranks agree on before the first step. Plain data; every rank builds the same.
struct StepPlan {
  const graph::Dag* dag = nullptr;  ///< outlives the plan
  Topology topology{};
  int virtual_ranks = 1;  ///< how many ranks one process stands for; more than 1 only alone
  std::vector<int> micro_batches;  ///< of a phase, by replica, or by virtual rank
  bool discrete = false;           ///< messages cannot be made of the device's memory
  schedule::Place persistent_place =
      schedule::Place::device;  ///< of storages that outlive a step; place_of: by bucket
  Bytes piece_bytes = comm::default_piece_bytes;   ///< comm::ProgressOptions::piece_bytes
  int phases_per_step = 1;                         ///< in each a rank runs its micro-batches
  Element gradient = Element::float32;  ///< what gradients of parameters are added up and sent in
  bool own_master = false;  ///< the optimizer keeps master weights also of what is no narrower
  bool adapts = false;      ///< a phase takes extra micro-batches while it communicates
  int max_micro_batches = 0;  ///< of a rank in such a phase; 0 is no bound
  /// Updates wait for the norm of all gradients, also where a policy could do without.
  bool waits_for_global_norm = true;
  bool updates_within_a_step = true;  ///< the optimizer can, where the pipeline asks for it (weight_versions)
  OuterSchedule outer_schedule{};          ///< of ranks that step on their own
  std::vector<ParameterGroup> groups{};    ///< of parameters that are updated otherwise
  std::vector<int> group_of_parameter{};   ///< -1: none; empty: there are no groups
  WholeMatrices matrices{};                ///< of the update rule; then no shard cuts one of these
  std::vector<int> states_of_parameter{};  ///< how many of the rule's states its weights keep, the first; empty: all
  std::vector<Activations> activations{};  ///< by segment; empty: all are kept
  SwapSchedule swapping{};                 ///< where the swap policy swaps
  /// `Drop` instructions mark device memory that nobody reads any more, and a checking device
  /// poisons it.
  bool poisons_dead_memory = false;
  std::uint64_t agreed = 0;  ///< stands for the programs of all ranks, once these have compared them: in messages

  graph::ParameterLayout layout{};
  std::vector<graph::Segment> segments{};
  std::vector<graph::Segment> halves{};  ///< the same segments, split; empty: no backward has halves
  std::vector<Bucket> buckets{};
  std::vector<int> bucket_of_parameter{};
  std::vector<graph::RemoteEdge> remote_edges{};  ///< between stages
  std::vector<SegmentTimes> segment_times{};      ///< what orders of a pipeline are timed by
  std::vector<TiedCopy> tied_copies{};            ///< by parameter, then stage
  PipelineTimetables timetables{};                ///< of a pipeline that has an order of its own
  WeightVersions weight_versions{};               ///< of a pipeline that updates within a step
  /// By Traffic: what a compressor encodes, and of which an optimizer has all-gathers.
  std::array<WireForm, schedule::traffic_count> wire{};
  std::array<bool, schedule::traffic_count> gathers{};
  std::vector<int> bucket_of_segment{};  ///< -1: the segment is the first to use no parameter
  std::vector<int> stage_of_segment{};
  std::vector<int> chunk_of_segment{};   ///< of those that the topology has
  std::vector<int> position_in_stage{};  ///< by segment: how many of its stage come before it

  /// Of a weight, and of what is summed: gradients of weights, losses, optimizer state.
  [[nodiscard]] Bytes element_bytes() const { return size_of(dag->element); }
  [[nodiscard]] Bytes sum_bytes() const { return size_of(sum_of(dag->element)); }

  /// Of a gradient that is kept or sent: as what is summed, unless it is rounded after each sum.
  [[nodiscard]] Bytes gradient_bytes() const { return size_of(gradient); }
  [[nodiscard]] bool rounds_gradients() const { return gradient_bytes() < sum_bytes(); }

  [[nodiscard]] int ranks() const { return topology.ranks(); }

  [[nodiscard]] const WireForm& wire_of(schedule::Traffic traffic) const& {
    return wire[static_cast<std::size_t>(traffic)];
  }
  [[nodiscard]] WireForm wire_of(schedule::Traffic traffic) const&& { return wire_of(traffic); }
  [[nodiscard]] bool gathers_of(schedule::Traffic traffic) const {
    return gathers[static_cast<std::size_t>(traffic)];
  }

  /// Backwards may run in halves.
  void split_backwards();

  /// The segments of a stage, and the buckets, ascending.
  [[nodiscard]] std::vector<int> segments_of(int stage) const;
  [[nodiscard]] std::vector<std::size_t> buckets_of(int stage) const;

  /// The stage that holds a parameter: that of its first use.
  [[nodiscard]] int owner_of(int parameter) const {
    const int b = bucket_of_parameter[static_cast<std::size_t>(parameter)];
    return buckets[static_cast<std::size_t>(b)].stage;
  }
  /// The stage of the operator whose use of a parameter that is.
  [[nodiscard]] int stage_of_use(int use) const;

  /// Nothing of the same stage comes behind that segment.
  [[nodiscard]] bool is_last_of_stage(std::size_t segment) const {
    const auto at = stage_of_segment.begin() + static_cast<std::ptrdiff_t>(segment);
    return std::find(at + 1, stage_of_segment.end(), *at) == stage_of_segment.end();
  }

  /// The stage whose segments compute the loss.
  [[nodiscard]] int loss_stage() const;

  /// Where the weights of a bucket live, with their gradients and the optimizer's state.
  [[nodiscard]] schedule::Place place_of(std::size_t bucket) const;

  /// Without an order of a pipeline's own the backward of a stage's last segment comes at once.
  [[nodiscard]] Activations activations_of(std::size_t segment) const;
  [[nodiscard]] bool recomputes_segment(std::size_t segment) const {
    return recomputes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_segment(std::size_t segment) const {
    return stashes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_some() const;

  /// An optimizer keeps master weights: those of the model are narrower than sums, or are others.
  [[nodiscard]] bool keeps_master() const { return own_master || element_bytes() < sum_bytes(); }

  /// Where the parameters of a bucket lie in it: [begin, end) of runs without padding, ascending.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> parameters_in(int bucket) const;

  /// What a parameter has otherwise; null where nothing.
  [[nodiscard]] const ParameterGroup* group_of(std::size_t parameter) const& {
    if (groups.empty() || group_of_parameter[parameter] < 0) return nullptr;
    return &groups[static_cast<std::size_t>(group_of_parameter[parameter])];
  }
  void group_of(std::size_t) const&& = delete;

  /// The place of a parameter's update rule in a composed one.
  [[nodiscard]] int rule_of(std::size_t parameter) const {
    const ParameterGroup* const group = group_of(parameter);
    return group == nullptr ? 0 : group->rule;
  }

  /// The replicas that a process works for, its own or those that it stands for: [first, last) of
  /// micro_batches.
  [[nodiscard]] std::pair<int, int> folds_of(int rank) const;

  /// The micro-batches that a process runs in a phase.
  [[nodiscard]] int micro_batches_of(int rank) const {
    const auto [first, last] = folds_of(rank);
    return std::accumulate(micro_batches.begin() + first, micro_batches.begin() + last, 0);
  }

  /// Those that a phase which adapts takes at once beyond its first ones: one; of a pipeline as many again, since with
  /// fewer its stages would wait for each other longer.
  [[nodiscard]] int micro_batches_of_body(int rank) const {
    return topology.stages > 1 ? micro_batches_of(rank) : 1;
  }

  /// The micro-batches of all replicas in a phase, and in a step.
  [[nodiscard]] int micro_batches_in_all() const {
    return std::accumulate(micro_batches.begin(), micro_batches.end(), 0);
  }
  [[nodiscard]] int micro_batches_of_step() const {
    return phases_per_step * micro_batches_in_all();
  }

  /// How many micro-batches of a phase come before the first of this rank's replica.
  [[nodiscard]] int micro_batches_before(int rank) const {
    const int first = folds_of(rank).first;
    return std::accumulate(micro_batches.begin(), micro_batches.begin() + first, 0);
  }
};

/// A process stands for several ranks, and what those would send of that traffic is encoded: so it does to itself, by
/// collectives of one member.
inline bool stands_for_encoded(const StepPlan& plan, schedule::Traffic traffic, std::size_t bucket) {
  return plan.virtual_ranks > 1 && plan.wire_of(traffic).encodes(static_cast<int>(bucket));
}

/// Where a model may be cut: the bounds of segments that hold at least `segment_bytes` of
/// parameters each, at positions where fewer bytes cross than beside them.
///
/// | bounds | of chunks, where there are any: they are among the cuts               |
/// | order  | ascending, first 0, last the number of nodes                          |
/// | bits   | none change: gradients are folded per use, wherever the cuts are      |
std::vector<int> choose_cuts(const graph::Dag& dag, Bytes segment_bytes,
                             const std::vector<int>& bounds = {});

/// Plans the segments between the cuts and the buckets of their parameters. `micro_batches`: of each
/// replica, or of each rank that a lone process stands for.
///
/// Throws OptionError when cuts, topology or counts make no sense.
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
