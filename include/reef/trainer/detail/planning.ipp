#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/chain.hpp>
#include <reef/profile/network.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/costs.hpp>
#include <reef/schedule/world.hpp>
#include <reef/trainer/detail/planning.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

inline const profile::Profile* profile_in(const TrainerSettings& settings) {
  return settings.profile ? &*settings.profile : nullptr;
}

REEF_INLINE std::vector<int> bounds_of_chunks(const graph::Dag& dag, const run::Topology& topology,
                                              const profile::Profile* profile) {
  if (!topology.bounds.empty()) return topology.bounds;
  if (topology.chunks() < 2 || !topology.stage_of_segment.empty()) return {};
  return run::chunk_bounds(dag, run::node_times(dag, profile), topology.chunks());
}

REEF_INLINE run::Topology topology_of(const Policies& policies, const TrainerSettings& settings, int ranks) {
  run::Topology given = settings.topology ? *settings.topology : run::Topology(ranks);
  given.validate_ranks();
  if (policies.stage_of_chunk != nullptr && given.stage_of_chunk.empty() && given.stage_of_segment.empty()) {
    given.stage_of_chunk = policies.stage_of_chunk(given.stages, settings);
  }
  if (given.ranks() != ranks) {
    throw OptionError("reef::Trainer: the topology has ", given.text(), ", but there ",
                      ranks == 1 ? "is 1 rank" : concat("are ", ranks, " ranks"),
                      ".\n  fix: replicas x stages = ranks, or as many ranks.");
  }
  if (given.stages > 1 && !policies.spans_stages) {
    throw OptionError("reef::Trainer: the topology has ", given.stages,
                      " stages, but this pipeline policy runs the whole model on every rank.\n"
                      "  fix: stages = 1, or a pipeline policy that spans stages.");
  }
  if (given.stages > 1 && settings.serial) {
    throw OptionError("reef::Trainer: the topology has ", given.stages,
                      " stages, but one instruction is to run at a time (serial).\n"
                      "  why: a stage would wait for its message to arrive while the next waits for its own.\n"
                      "  fix: serial = false; one stage is the reference.");
  }
  if (given.stages > 1 && settings.next_micro_batch) {
    throw OptionError("reef::Trainer: the topology has ", given.stages,
                      " stages, but next_micro_batch is given.\n"
                      "  why: each stage would ask for numbers of its own, of other micro-batches.\n"
                      "  fix: stages = 1, or the numbers of the plan.");
  }
  if (policies.overlapping && given.stages > 1 && settings.accumulation.order == Accumulation::Order::shared) {
    throw OptionError(
        "reef::Trainer: the topology has ", given.stages, " stages, but accumulation has a shared order.\n"
        "  why: each stage would ask for numbers of its own, of other micro-batches.\n"
        "  fix: Accumulation::adaptive() in the order of each replica, or stages = 1.");
  }
  return given;
}

/// What the settings say, and the planner of what they leave open.
inline run::Choice choice_of(const Policies& policies, const graph::Dag& dag, const TrainerSettings& settings,
                             int ranks, const std::vector<int>& micro_batches) {
  if (settings.profile) graph::require_profile_of(dag, *settings.profile);
  const run::Topology topology = topology_of(policies, settings, ranks);
  topology.validate_bounds(dag.node_count());
  if (!topology.bounds.empty() && !settings.cuts.empty()) {
    throw OptionError("reef::Trainer: the topology has bounds of chunks, and there are cuts.\n"
                      "  why: both say where the model is cut.\n"
                      "  fix: bounds alone, or cuts with the topology's chunk_of_segment.");
  }
  run::Choice choice;
  if (policies.offloads_to_host) choice.swapping = settings.swapping.value_or(policies.swapping);
  choice.activations = settings.activations;
  const bool bounded = policies.offloads_to_host && policies.device(settings).memory_bytes > 0;
  const bool open = settings.cuts.empty() || settings.activations.empty() || !settings.swapping;
  if (bounded && open) {
    choice = policies.choose(dag, settings, ranks, micro_batches);
  } else if (!settings.cuts.empty()) {
    choice.cuts = settings.cuts;
    choice.cuts.insert(choice.cuts.begin(), 0);
    choice.cuts.push_back(dag.node_count());
  } else {
    using namespace literals;
    const Bytes eighth = static_cast<Bytes>(dag.parameter_count()) * size_of(policies.element) / 8;
    const Bytes bucket = settings.bucket_bytes > 0 ? settings.bucket_bytes : std::clamp<Bytes>(eighth, 256_KiB, 16_MiB);
    const std::vector<int> bounds = bounds_of_chunks(dag, topology, profile_in(settings));
    choice.cuts = run::choose_cuts(dag, bucket, bounds);
    choice.chunk_of_segment = run::chunks_between(choice.cuts, bounds);
  }
  return choice;
}

/// Throws OptionError unless a device of the network is a rank.
inline schedule::World world_of(const profile::Network& network, int ranks) {
  if (network.devices == ranks) return schedule::World::of(network);
  throw OptionError(
      "reef::Trainer: options.network has links between ", network.devices, " devices, but there ",
      ranks == 1 ? "is 1 rank" : concat("are ", ranks, " ranks"),
      ".\n  why: a device of it is a rank.\n  fix: the links between all ranks; profile::Network::first has those of "
      "the first devices.");
}

REEF_INLINE run::StepPlan plan_skeleton(const Policies& policies, const graph::Dag& dag,
                                        const TrainerSettings& settings, int ranks, std::vector<int> micro_batches,
                                        const run::Choice& choice) {
  run::Topology topology = topology_of(policies, settings, ranks);
  if (topology.chunk_of_segment.empty()) topology.chunk_of_segment = choice.chunk_of_segment;
  topology.bounds.clear();  // the cuts have them
  run::StepPlan plan = run::make_step_plan(dag, choice.cuts, std::move(topology), settings.virtual_ranks,
                                           std::move(micro_batches), policies.device(settings).discrete);
  if (settings.network) plan.world = world_of(*settings.network, ranks);
  plan.segment_times = run::segment_times(plan, profile_in(settings));
  plan.groups = settings.groups;
  plan.group_of_parameter = run::groups_of_parameters(dag, plan.groups);
  return plan;
}

REEF_INLINE run::StepPlan complete_plan(const Policies& policies, run::StepPlan plan, const TrainerSettings& settings,
                                    const run::Choice& choice) {
  plan.activations = choice.activations;
  if (plan.activations.size() == 1) {
    plan.activations.assign(plan.segments.size(), choice.activations.front());
  }
  if (plan.stashes_some() && !policies.offloads_to_host) {
    throw OptionError(
        "reef::Trainer: activations are to be stashed, but nothing is swapped.\n"
        "  why: they would go to host memory beside weights that stay.\n"
        "  fix: Activations::recompute, or swap::Atom.");
  }
  plan.swapping = choice.swapping;
  plan.swapping.resident_segments =
      (std::min)(plan.swapping.resident_segments, static_cast<int>(plan.segments.size()));
  plan.poisons_dead_memory = policies.device(settings).poisons_dead_memory;
  plan.piece_bytes = settings.communication.piece_bytes;
  plan.gradient = policies.gradient;
  if (policies.offloads_to_host) plan.persistent_place = schedule::Place::host;
  if (!policies.overlapping && !policies.periodic) {
    plan.waits_for_global_norm = settings.non_finite != optim::NonFinite::ignore;
  }
  plan.updates_within_a_step = policies.updates_within_a_step;
  if (policies.overlapping || policies.counts_micro_batches) {
    plan.adapts = settings.accumulation.adapts || policies.counts_micro_batches;
    plan.max_micro_batches = settings.accumulation.max_micro_batches;
  }
  policies.fill_in(plan, settings);
  return plan;
}

REEF_INLINE run::StepPlan plan_of(const Policies& policies, const graph::Dag& dag, const TrainerSettings& settings,
                                  int ranks, std::vector<int> micro_batches) {
  if (micro_batches.empty()) {
    micro_batches = settings.counts();
    if (settings.virtual_ranks == 1) {
      const auto replicas = static_cast<std::size_t>(topology_of(policies, settings, ranks).replicas);
      micro_batches.assign(replicas, micro_batches.front());
    }
  }
  const run::Choice choice = choice_of(policies, dag, settings, ranks, micro_batches);
  return complete_plan(policies, plan_skeleton(policies, dag, settings, ranks, std::move(micro_batches), choice),
                       settings, choice);
}

REEF_INLINE void write_choice(const run::StepPlan& plan, TrainerSettings& settings) {
  settings.activations = plan.activations;
  if (settings.activations.empty()) settings.activations = {Activations::keep};
  settings.swapping = plan.swapping;
  if (settings.topology || plan.topology.chunks() > 1) settings.topology = plan.topology;
  settings.cuts.clear();
  for (const graph::Segment& segment : plan.segments) {
    if (segment.first > 0) settings.cuts.push_back(segment.first);
  }
}

REEF_INLINE void require_possible(const Policies& policies, const TrainerSettings& settings) {
  if (policies.counts_micro_batches &&
      (settings.next_micro_batch || settings.accumulation.order == Accumulation::Order::shared)) {
    throw OptionError("reef::Trainer: ",
                      settings.next_micro_batch ? "next_micro_batch is given" : "accumulation has a shared order",
                      ", but this optimizer numbers micro-batches itself.\n  fix: leave it out.");
  }
  if (policies.overlapping || policies.counts_micro_batches || !settings.accumulation.adapts) return;
  throw OptionError(
      "reef::Trainer: accumulation adapts, but this optimizer communicates between micro-"
      "batches, not beside them.\n  fix: Accumulation::fixed(), or optim::Acco.");
}

}  // namespace detail
}  // namespace v0
}  // namespace reef
