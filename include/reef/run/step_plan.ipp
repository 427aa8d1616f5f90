#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/step_plan.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE void StepPlan::split_backwards() {
  for (std::size_t s = halves.size(); s < segments.size(); ++s) {
    halves.push_back(graph::plan_segment(*dag, segments[s].first, segments[s].last, graph::Halves::yes));
  }
}

REEF_INLINE std::vector<int> StepPlan::segments_of(int stage) const {
  std::vector<int> result;
  for (std::size_t s = 0; s < stage_of_segment.size(); ++s) {
    if (stage_of_segment[s] == stage) result.push_back(static_cast<int>(s));
  }
  return result;
}

REEF_INLINE std::vector<std::size_t> StepPlan::buckets_of(int stage) const {
  std::vector<std::size_t> result;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (buckets[b].stage == stage) result.push_back(b);
  }
  return result;
}

REEF_INLINE int StepPlan::stage_of_use(int use) const {
  const int node = dag->use_at(use).node;
  const auto behind = std::upper_bound(
      segments.begin(), segments.end(), node,
      [](int wanted, const graph::Segment& segment) { return wanted < segment.last; });
  return stage_of_segment[static_cast<std::size_t>(behind - segments.begin())];
}

REEF_INLINE int StepPlan::loss_stage() const {
  const int producer = dag->tensor_at(dag->loss).producer;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    if (producer < segments[s].last) return stage_of_segment[s];
  }
  return stage_of_segment.back();
}

REEF_INLINE Activations StepPlan::activations_of(std::size_t segment) const {
  const bool at_once = timetables.training.empty() && is_last_of_stage(segment);
  const bool keeps = activations.empty() || at_once;
  return keeps ? Activations::keep : activations[segment];
}

REEF_INLINE bool StepPlan::stashes_some() const {
  for (std::size_t s = 0; s < segments.size(); ++s) {
    if (stashes_segment(s)) return true;
  }
  return false;
}

REEF_INLINE std::vector<std::pair<std::int64_t, std::int64_t>> StepPlan::parameters_in(int bucket) const {
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

REEF_INLINE std::pair<int, int> StepPlan::folds_of(int rank) const {
  if (virtual_ranks > 1) return {0, virtual_ranks};
  const int replica = topology.replica_of(rank);
  return {replica, replica + 1};
}

REEF_INLINE std::vector<int> choose_cuts(const graph::Dag& dag, Bytes segment_bytes,
                                         const std::vector<int>& bounds) {
  const int count = dag.node_count();
  constexpr Bytes everything = (std::numeric_limits<Bytes>::max)();
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

/// Trained parameters that a stage uses and another holds.
inline std::vector<TiedCopy> tied_copies_of(const StepPlan& plan) {
  std::vector<TiedCopy> copies;
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    if (plan.dag->parameters[p].frozen) continue;
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

REEF_INLINE StepPlan make_step_plan(const graph::Dag& dag, const std::vector<int>& cuts,
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
  if (std::all_of(dag.parameters.begin(), dag.parameters.end(), [](const auto& p) { return p.frozen; })) {
    throw OptionError("reef::run: all ", dag.parameters.size(), " parameters of the graph are frozen.\n"
                      "  why: a step trains parameters.\n  fix: freeze fewer.");
  }
  topology.validate(static_cast<int>(cuts.size()) - 1);
  if (virtual_ranks < 1 || (virtual_ranks > 1 && topology.ranks() > 1)) {
    throw OptionError(
        "reef::run: virtual_ranks is ", virtual_ranks, " on ", topology.ranks(),
        " ranks.\n  why: one process stands for several ranks only when it is alone.\n"
        "  fix: virtual_ranks = 1, or one rank.");
  }
  const auto folds = static_cast<std::size_t>((std::max)(topology.replicas, virtual_ranks));
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
  StepPlan plan;
  plan.dag = &dag;
  plan.topology = std::move(topology);
  plan.virtual_ranks = virtual_ranks;
  plan.micro_batches = std::move(micro_batches);
  plan.discrete = discrete;
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
    Bucket bucket{segment, (std::numeric_limits<std::int64_t>::max)(), 0, {}, {}};
    for (const int id : plan.segments.back().parameters) {
      const auto parameter = static_cast<std::size_t>(id);
      if (plan.bucket_of_parameter[parameter] >= 0 || dag.parameters[parameter].frozen) continue;
      plan.bucket_of_parameter[parameter] = static_cast<int>(plan.buckets.size());
      const std::int64_t begin = plan.layout.parameters[parameter];
      bucket.begin = (std::min)(bucket.begin, begin);
      bucket.end =
          (std::max)(bucket.end, begin + graph::ParameterLayout::room(dag.parameters[parameter]));
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

}  // namespace run
}  // namespace v0
}  // namespace reef
