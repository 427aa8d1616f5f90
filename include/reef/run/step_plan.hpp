#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
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

namespace reef::inline v0::run {

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
  [[nodiscard]] std::string text() const {
    constexpr std::array<std::string_view, 3> names{"none", "mix", "eager"};
    return concat("every ", every, " steps in ", fragments, " fragments, overlap ",
                  names[static_cast<std::size_t>(overlap)]);
  }
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

  [[nodiscard]] const WireForm& wire_of(schedule::Traffic traffic) const {
    return wire[static_cast<std::size_t>(traffic)];
  }
  [[nodiscard]] bool gathers_of(schedule::Traffic traffic) const {
    return gathers[static_cast<std::size_t>(traffic)];
  }

  /// Backwards may run in halves.
  void split_backwards() {
    for (std::size_t s = halves.size(); s < segments.size(); ++s) {
      halves.push_back(graph::plan_segment(*dag, segments[s].first, segments[s].last, graph::Halves::yes));
    }
  }

  /// The segments of a stage, and the buckets, ascending.
  [[nodiscard]] std::vector<int> segments_of(int stage) const {
    std::vector<int> result;
    for (std::size_t s = 0; s < stage_of_segment.size(); ++s) {
      if (stage_of_segment[s] == stage) result.push_back(static_cast<int>(s));
    }
    return result;
  }
  [[nodiscard]] std::vector<std::size_t> buckets_of(int stage) const {
    std::vector<std::size_t> result;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      if (buckets[b].stage == stage) result.push_back(b);
    }
    return result;
  }

  /// The stage that holds a parameter: that of its first use.
  [[nodiscard]] int owner_of(int parameter) const {
    const int b = bucket_of_parameter[static_cast<std::size_t>(parameter)];
    return buckets[static_cast<std::size_t>(b)].stage;
  }
  /// The stage of the operator whose use of a parameter that is.
  [[nodiscard]] int stage_of_use(int use) const {
    const int node = dag->use_at(use).node;
    const auto behind = std::upper_bound(
        segments.begin(), segments.end(), node,
        [](int wanted, const graph::Segment& segment) { return wanted < segment.last; });
    return stage_of_segment[static_cast<std::size_t>(behind - segments.begin())];
  }

  /// Nothing of the same stage comes behind that segment.
  [[nodiscard]] bool is_last_of_stage(std::size_t segment) const {
    const auto at = stage_of_segment.begin() + static_cast<std::ptrdiff_t>(segment);
    return std::find(at + 1, stage_of_segment.end(), *at) == stage_of_segment.end();
  }

  /// The stage whose segments compute the loss.
  [[nodiscard]] int loss_stage() const {
    const int producer = dag->tensor_at(dag->loss).producer;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      if (producer < segments[s].last) return stage_of_segment[s];
    }
    return stage_of_segment.back();
  }

  /// Where the weights of a bucket live, with their gradients and the optimizer's state.
  [[nodiscard]] schedule::Place place_of(std::size_t bucket) const {
    const auto segment = static_cast<std::size_t>(buckets[bucket].segment);
    return position_in_stage[segment] < swapping.resident_segments ? schedule::Place::device
                                                                   : persistent_place;
  }

  /// Without an order of a pipeline's own the backward of a stage's last segment comes at once.
  [[nodiscard]] Activations activations_of(std::size_t segment) const {
    const bool at_once = timetables.training.empty() && is_last_of_stage(segment);
    const bool keeps = activations.empty() || at_once;
    return keeps ? Activations::keep : activations[segment];
  }
  [[nodiscard]] bool recomputes_segment(std::size_t segment) const {
    return recomputes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_segment(std::size_t segment) const {
    return stashes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_some() const {
    for (std::size_t s = 0; s < segments.size(); ++s) {
      if (stashes_segment(s)) return true;
    }
    return false;
  }

  /// An optimizer keeps master weights: those of the model are narrower than sums, or are others.
  [[nodiscard]] bool keeps_master() const { return own_master || element_bytes() < sum_bytes(); }

  /// Where the parameters of a bucket lie in it: [begin, end) of runs without padding, ascending.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> parameters_in(int bucket) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;
    for (std::size_t p = 0; p < layout.parameters.size(); ++p) {
      if (bucket_of_parameter[p] != bucket) continue;
      const std::int64_t begin =
          layout.parameters[p] - buckets[static_cast<std::size_t>(bucket)].begin;
      const std::int64_t end = begin + dag->parameters[p].spec.shape.size();
      if (!runs.empty() && runs.back().second == begin) {
        runs.back().second = end;
      } else {
        runs.emplace_back(begin, end);
      }
    }
    return runs;
  }

  /// What a parameter has otherwise; null where nothing.
  [[nodiscard]] const ParameterGroup* group_of(std::size_t parameter) const {
    if (groups.empty() || group_of_parameter[parameter] < 0) return nullptr;
    return &groups[static_cast<std::size_t>(group_of_parameter[parameter])];
  }

  /// The place of a parameter's update rule in a composed one.
  [[nodiscard]] int rule_of(std::size_t parameter) const {
    const ParameterGroup* const group = group_of(parameter);
    return group == nullptr ? 0 : group->rule;
  }

  /// The replicas that a process works for, its own or those that it stands for: [first, last) of
  /// micro_batches.
  [[nodiscard]] std::pair<int, int> folds_of(int rank) const {
    if (virtual_ranks > 1) return {0, virtual_ranks};
    const int replica = topology.replica_of(rank);
    return {replica, replica + 1};
  }

  /// The micro-batches that a process runs in a phase.
  [[nodiscard]] int micro_batches_of(int rank) const {
    const auto [first, last] = folds_of(rank);
    return std::accumulate(micro_batches.begin() + first, micro_batches.begin() + last, 0);
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
inline std::vector<int> choose_cuts(const graph::Dag& dag, Bytes segment_bytes,
                                    const std::vector<int>& bounds = {}) {
  const int count = dag.node_count();
  constexpr Bytes everything = std::numeric_limits<Bytes>::max();
  std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  crossing.front() = everything;
  crossing.back() = everything;
  const auto narrow = [&](int c) {  // fewer bytes cross than on either side, or as few
    const auto at = static_cast<std::size_t>(c);
    return crossing[at] <= crossing[at - 1] && crossing[at] <= crossing[at + 1];
  };

  std::vector<int> cuts{0};
  std::vector<bool> seen(dag.parameters.size(), false);
  Bytes held = 0;
  for (int node = 0; node < count; ++node) {
    const bool bound = std::binary_search(bounds.begin(), bounds.end(), node);
    if (node > 0 && (bound || (held >= segment_bytes && narrow(node)))) {
      cuts.push_back(node);
      held = 0;
    }
    for (const int use : dag.node_at(node).uses) {
      const auto parameter = static_cast<std::size_t>(dag.use_at(use).parameter);
      if (!seen[parameter]) held += dag.parameters[parameter].spec.bytes();
      seen[parameter] = true;
    }
  }
  cuts.push_back(count);
  return cuts;
}

namespace detail {

/// Parameters that a stage uses and another holds.
inline std::vector<TiedCopy> tied_copies_of(const StepPlan& plan) {
  std::vector<TiedCopy> copies;
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    std::vector<int> stages;
    for (const int use : plan.dag->parameters[p].uses) stages.push_back(plan.stage_of_use(use));
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    for (const int stage : stages) {
      const int parameter = static_cast<int>(p);
      if (stage != plan.owner_of(parameter)) copies.push_back({parameter, stage});
    }
  }
  return copies;
}

}  // namespace detail

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
inline StepPlan make_step_plan(const graph::Dag& dag, const std::vector<int>& cuts,
                               Topology topology, int virtual_ranks, std::vector<int> micro_batches,
                               bool discrete) {
  if (dag.loss < 0) {
    throw OptionError(
        "reef::run: the graph has no loss to train on.\n  fix: call graph.loss(tensor).");
  }
  if (dag.inputs.empty() || dag.parameters.empty()) {
    throw OptionError("reef::run: the graph has no ", dag.inputs.empty() ? "input" : "parameter",
                      ".\n  why: a step reads micro-batches and trains parameters.\n"
                      "  fix: call graph.input(), and add operators that have parameters.");
  }
  topology.validate(static_cast<int>(cuts.size()) - 1);
  if (virtual_ranks < 1 || (virtual_ranks > 1 && topology.ranks() > 1)) {
    throw OptionError(
        "reef::run: virtual_ranks is ", virtual_ranks, " on ", topology.ranks(),
        " ranks.\n  why: one process stands for several ranks only when it is alone.\n"
        "  fix: virtual_ranks = 1, or one rank.");
  }
  const auto folds = static_cast<std::size_t>(std::max(topology.replicas, virtual_ranks));
  if (micro_batches.size() != folds) {
    throw OptionError("reef::run: ", micro_batches.size(), " counts of micro-batches for ", folds,
                      folds == 1 ? " replica" : " replicas",
                      ".\n  fix: one count for each replica of the model, or for each rank that a "
                      "process stands for.");
  }
  constexpr std::int64_t most = std::int64_t{1} << 24;  // each has instructions and storages
  std::int64_t all = 0;
  for (const int count : micro_batches) {
    if (count < 1)
      throw OptionError("reef::run: a rank has no micro-batch; each needs at least 1.");
    all += count;
  }
  if (all > most) {
    throw OptionError("reef::run: the ranks have ", all, " micro-batches, at most ", most,
                      " in all.\n  fix: fewer, and larger ones.");
  }
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts.front() == 0 && cuts.back() == dag.node_count() && cuts[i] < cuts[i + 1]) continue;
    throw OptionError("reef::run: the cuts do not divide a model of ", dag.node_count(),
                      " nodes: ", cuts[i], " comes before ", cuts[i + 1],
                      ".\n  fix: ascending numbers of nodes from 1 to ", dag.node_count() - 1, ".");
  }
  StepPlan plan{&dag, std::move(topology), virtual_ranks, std::move(micro_batches), discrete};
  plan.stage_of_segment = plan.topology.stages_of(static_cast<int>(cuts.size()) - 1);
  plan.chunk_of_segment = plan.topology.chunks_of(static_cast<int>(cuts.size()) - 1);
  std::vector<Group> holders;
  for (int stage = 0; stage < plan.topology.stages; ++stage) {
    holders.push_back(plan.topology.holders(stage));
  }
  std::vector<int> so_far(holders.size(), 0);
  for (const int stage : plan.stage_of_segment) {
    plan.position_in_stage.push_back(so_far[static_cast<std::size_t>(stage)]++);
  }
  plan.gradient = sum_of(dag.element);
  plan.layout = graph::parameter_layout(dag);
  plan.bucket_of_parameter.assign(dag.parameters.size(), -1);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    plan.segments.push_back(graph::plan_segment(dag, cuts[i], cuts[i + 1]));
    const int segment = static_cast<int>(i);
    Bucket bucket{segment, std::numeric_limits<std::int64_t>::max(), 0, {}, {}};
    for (const int id : plan.segments.back().parameters) {
      const auto parameter = static_cast<std::size_t>(id);
      if (plan.bucket_of_parameter[parameter] >= 0) continue;
      plan.bucket_of_parameter[parameter] = static_cast<int>(plan.buckets.size());
      const std::int64_t begin = plan.layout.parameters[parameter];
      bucket.begin = std::min(bucket.begin, begin);
      bucket.end = std::max(bucket.end, begin + graph::ParameterLayout::room(dag.parameters[parameter]));
      bucket.parameters.push_back(begin);
    }
    for (std::int64_t& begin : bucket.parameters) begin -= bucket.begin;
    plan.bucket_of_segment.push_back(bucket.end > 0 ? static_cast<int>(plan.buckets.size()) : -1);
    if (bucket.end == 0) continue;
    bucket.stage = plan.stage_of_segment[i];
    bucket.group = holders[static_cast<std::size_t>(bucket.stage)];
    bucket.shards = shard_offsets(bucket.size(), bucket.group.size(), bucket.parameters);
    bucket.owners = virtual_ranks == 1 ? bucket.shards : shard_offsets(bucket.size(), virtual_ranks, bucket.parameters);
    plan.buckets.push_back(std::move(bucket));
  }
  plan.tied_copies = detail::tied_copies_of(plan);
  plan.remote_edges = graph::remote_edges(dag, plan.segments, plan.stage_of_segment);
  return plan;
}

}  // namespace reef::inline v0::run
