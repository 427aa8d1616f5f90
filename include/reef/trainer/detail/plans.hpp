#pragma once

// The members of Trainer that say what a step will be, before there is one: plans, estimates, programs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/device/cores.hpp>
#include <reef/graph/chain.hpp>
#include <reef/optim/matrix_rule.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef {
inline namespace v0 {

namespace detail {

/// Throws OptionError if a policy that has one swap schedule is given another.
template <class Swap>
void require_schedule_of(const run::SwapSchedule& given) {
  constexpr auto schedules = Swap::schedules();
  bool allowed = false;
  if constexpr (requires { Swap::allows_resident_segments; })
    allowed = Swap::allows_resident_segments;
  if (!allowed && given.resident_segments > 0) {
    throw OptionError(
        "reef::Trainer: swapping has ", given.resident_segments,
        " segments that stay, but of this policy none does.\n  why: all that it has passes through "
        "slots.\n  fix: resident_segments = 0, or swap::Atom<>.");
  }
  if (schedules.size() > 1) return;
  run::SwapSchedule own = schedules.front();
  own.resident_segments = given.resident_segments;
  own.stash_slots = given.stash_slots;
  if (given == own) return;
  const auto said = [](const run::SwapSchedule& swapping) {
    return concat(swapping.weight_slots, " slots", swapping.per_micro_batch ? ", streams" : "",
                  swapping.copies_on_compute_lane ? ", on two lanes" : "",
                  swapping.writes_back ? ", and writes back" : "");
  };
  throw OptionError("reef::Trainer: swapping has ", said(given), ".\n  why: this policy has ",
                    said(own), ", and no other schedule.\n  fix: that, or swap::Atom<>.");
}

/// Where chunks of a model begin whose cuts are chosen, with 0 and the number of nodes; none if there is one chunk, or a
/// segment's stage is given.
inline std::vector<int> bounds_of_chunks(const graph::Dag& dag, const run::Topology& topology,
                                         const profile::Profile* profile) {
  if (!topology.bounds.empty()) return topology.bounds;
  if (topology.chunks() < 2 || !topology.stage_of_segment.empty()) return {};
  return run::chunk_bounds(dag, run::node_times(dag, profile), topology.chunks());
}

}  // namespace detail

/// What the options say, and the planner of what they leave open.
template <class... Policies>
run::Choice Trainer<Policies...>::choice_of(const graph::Dag& dag, const Options& options,
                                            int ranks, const std::vector<int>& micro_batches) {
  if (options.profile) graph::require_profile_of(dag, *options.profile);
  const run::Topology topology = topology_of(options, ranks);
  topology.validate_bounds(dag.node_count());
  if (!topology.bounds.empty() && !options.cuts.empty()) {
    throw OptionError("reef::Trainer: the topology has bounds of chunks, and there are cuts.\n"
                      "  why: both say where the model is cut.\n"
                      "  fix: bounds alone, or cuts with the topology's chunk_of_segment.");
  }
  run::Choice choice;
  if constexpr (Swap::offloads_to_host) {
    choice.swapping = options.swapping ? *options.swapping : Swap::schedules().front();
  }
  choice.activations = options.activations;
  const bool bounded = Swap::offloads_to_host && options.device.memory_bytes > 0;
  const bool open = options.cuts.empty() || options.activations.empty() || !options.swapping;
  if (bounded && open) {
    choice = choose_swap(dag, options, ranks, micro_batches);
  } else if (!options.cuts.empty()) {
    choice.cuts = options.cuts;
    choice.cuts.insert(choice.cuts.begin(), 0);
    choice.cuts.push_back(dag.node_count());
  } else {
    using namespace literals;
    const Bytes eighth = static_cast<Bytes>(dag.parameter_count()) * sizeof(T) / 8;
    const Bytes bucket = options.bucket_bytes > 0 ? options.bucket_bytes
                                                  : std::clamp<Bytes>(eighth, 256_KiB, 16_MiB);
    const std::vector<int> bounds =
        detail::bounds_of_chunks(dag, topology, options.profile ? &*options.profile : nullptr);
    choice.cuts = run::choose_cuts(dag, bucket, bounds);
    choice.chunk_of_segment = run::chunks_between(choice.cuts, bounds);
  }
  return choice;
}

/// Throws OptionError for a topology that is not of so many ranks, or that the policies cannot run on.
template <class... Policies>
run::Topology Trainer<Policies...>::topology_of(const Options& options, int ranks) {
  run::Topology given = options.topology ? *options.topology : run::Topology(ranks);
  given.validate_ranks();
  if constexpr (requires { Pipeline::stage_of_chunk(given.stages, options.pipeline); }) {
    if (given.stage_of_chunk.empty() && given.stage_of_segment.empty()) {
      given.stage_of_chunk = Pipeline::stage_of_chunk(given.stages, options.pipeline);
    }
  }
  if (given.ranks() != ranks) {
    throw OptionError("reef::Trainer: the topology has ", given.text(), ", but there ",
                      ranks == 1 ? "is 1 rank" : concat("are ", ranks, " ranks"), ".\n  fix: replicas x stages = ranks, or as many ranks.");
  }
  bool spans_stages = false;
  if constexpr (requires { Pipeline::spans_stages; }) spans_stages = Pipeline::spans_stages;
  if (given.stages > 1 && !spans_stages) {
    throw OptionError("reef::Trainer: the topology has ", given.stages,
                      " stages, but this pipeline policy runs the whole model on every rank.\n"
                      "  fix: stages = 1, or a pipeline policy that spans stages.");
  }
  if (given.stages > 1 && options.serial) {
    throw OptionError("reef::Trainer: the topology has ", given.stages,
                      " stages, but one instruction is to run at a time (serial).\n"
                      "  why: a stage would wait for its message to arrive while the next waits for its own.\n"
                      "  fix: serial = false; one stage is the reference.");
  }
  if constexpr (overlapping) {
    if (given.stages > 1 && options.accumulation.order == Accumulation::Order::shared) {
      throw OptionError(
          "reef::Trainer: the topology has ", given.stages, " stages, but accumulation has a shared order.\n"
          "  why: each stage would ask for numbers of its own, of other micro-batches.\n"
          "  fix: Accumulation::adaptive() in the order of each replica, or stages = 1.");
    }
  }
  return given;
}

template <class... Policies>
auto Trainer<Policies...>::planned(const Model& model, Options options, int ranks,
                                   std::vector<int> micro_batches) -> Options {
  possible(options);
  const Model served = model.serving(device::threads_of(options.device));
  const graph::Dag& dag = served.dag();
  const run::StepPlan plan = plan_of(dag, options, ranks, std::move(micro_batches));
  options.activations = plan.activations;
  if (options.activations.empty()) options.activations = {Activations::keep};
  options.swapping = plan.swapping;
  if (options.topology || plan.topology.chunks() > 1) options.topology = plan.topology;
  options.cuts.clear();
  for (const graph::Segment& segment : plan.segments) {
    if (segment.first > 0) options.cuts.push_back(segment.first);
  }
  return options;
}

template <class... Policies>
run::StepPlan Trainer<Policies...>::plan_of(const graph::Dag& dag, const Options& options,
                                            int ranks, std::vector<int> micro_batches) {
  if (micro_batches.empty()) {
    micro_batches = options.counts();
    if (options.virtual_ranks == 1) {
      const auto replicas = static_cast<std::size_t>(topology_of(options, ranks).replicas);
      micro_batches.assign(replicas, micro_batches.front());
    }
  }
  const run::Choice choice = choice_of(dag, options, ranks, micro_batches);
  return plan_of(dag, options, ranks, std::move(micro_batches), choice);
}

template <class... Policies>
run::StepPlan Trainer<Policies...>::plan_of(const graph::Dag& dag, const Options& options,
                                            int ranks, std::vector<int> micro_batches,
                                            const run::Choice& choice) {
  return filled_in(outline_of(dag, options, ranks, std::move(micro_batches), choice), options, choice);
}

template <class... Policies>
run::StepPlan Trainer<Policies...>::outline_of(const graph::Dag& dag, const Options& options, int ranks,
                                               std::vector<int> micro_batches, const run::Choice& choice) {
  run::Topology topology = topology_of(options, ranks);
  if (topology.chunk_of_segment.empty()) topology.chunk_of_segment = choice.chunk_of_segment;
  topology.bounds.clear();  // the cuts have them
  run::StepPlan plan =
      run::make_step_plan(dag, choice.cuts, std::move(topology), options.virtual_ranks,
                          std::move(micro_batches), Device::discrete(options.device));
  plan.segment_times = run::segment_times(plan, options.profile ? &*options.profile : nullptr);
  plan.groups = options.groups;
  plan.group_of_parameter = run::groups_of_parameters(dag, plan.groups);
  return plan;
}

template <class... Policies>
run::StepPlan Trainer<Policies...>::filled_in(run::StepPlan plan, const Options& options, const run::Choice& choice) {
  plan.activations = choice.activations;
  if (plan.activations.size() == 1) {
    plan.activations.assign(plan.segments.size(), choice.activations.front());
  }
  if (plan.stashes_some() && !Swap::offloads_to_host) {
    throw OptionError(
        "reef::Trainer: activations are to be stashed, but nothing is swapped.\n"
        "  why: they would go to host memory beside weights that stay.\n"
        "  fix: Activations::recompute, or swap::Atom.");
  }
  plan.swapping = choice.swapping;
  plan.swapping.resident_segments =
      (std::min)(plan.swapping.resident_segments, static_cast<int>(plan.segments.size()));
  if constexpr (requires { options.device.poison_freed; })
    plan.poisons_dead_memory = options.device.poison_freed;
  plan.piece_bytes = options.communication.piece_bytes;
  plan.gradient = element_of<Gradient>;
  if constexpr (Swap::offloads_to_host) plan.persistent_place = schedule::Place::host;
  if constexpr (!overlapping && !periodic) {
    plan.waits_for_global_norm = options.non_finite != optim::NonFinite::ignore;
  }
  plan.updates_within_a_step = requires { requires Optim::updates_within_a_step; };
  if constexpr (overlapping) {
    plan.adapts = options.accumulation.adapts;
    plan.max_micro_batches = options.accumulation.max_micro_batches;
  }
  optim::plan_whole_matrices<Device, Sum>(plan, options.rule, device::threads_of(options.device));
  detail::hooks::plan<Optim>(plan, options.optim);
  detail::hooks::plan<Swap>(plan, options.swap);
  detail::hooks::plan<Pipeline>(plan, options.pipeline);
  detail::hooks::plan<Compress>(plan, options.compress);
  return plan;
}

/// By the profile, or by what is estimated: operations and copies, the link's rate being known.
template <class... Policies>
run::Choice Trainer<Policies...>::choose_swap(
    [[maybe_unused]] const graph::Dag& dag, [[maybe_unused]] const Options& options,
    [[maybe_unused]] int ranks, [[maybe_unused]] const std::vector<int>& micro_batches) {
  if constexpr (Swap::offloads_to_host) {
    using Planner = typename Swap::Planner;
    const auto profile = Planner::template profile_of<Device>(dag, options);
    const auto own = Swap::schedules();
    std::vector<run::SwapSchedule> schedules(own.begin(), own.end());
    if (options.swapping) schedules = {*options.swapping};
    bool allows_resident_segments = false;
    if constexpr (requires { Swap::allows_resident_segments; })
      allows_resident_segments = Swap::allows_resident_segments && !options.swapping;
    const auto most = std::max_element(micro_batches.begin(), micro_batches.end());
    const int busiest =
        options.virtual_ranks > 1 ? 0 : static_cast<int>(most - micro_batches.begin());
    const run::Topology topology = topology_of(options, ranks);
    std::vector<int> bounds;
    if (options.cuts.empty()) {
      bounds = detail::bounds_of_chunks(dag, topology, options.profile ? &*options.profile : nullptr);
    }
    const auto with_chunks = [&](run::Choice choice) {
      choice.chunk_of_segment = run::chunks_between(choice.cuts, bounds);
      return choice;
    };
    typename Planner::Programs programs;  // one by one: of braces nvcc sees no end
    std::map<std::vector<int>, run::StepPlan> outlines;  // by cuts, which are far fewer than candidates
    programs.plan = [&](const run::Choice& open) {
      const run::Choice choice = with_chunks(open);
      auto outline = outlines.find(choice.cuts);
      if (outline == outlines.end())
        outline = outlines.emplace(choice.cuts, outline_of(dag, options, ranks, micro_batches, choice)).first;
      return filled_in(outline->second, options, choice);
    };
    programs.step = [busiest](const run::StepPlan& plan) { return detail::heaviest_program(policies, plan, busiest); };
    programs.stages = static_cast<std::size_t>(topology.stages);
    programs.memory = [](const run::StepPlan& plan) { return detail::most_memory(policies, plan); };
    typename Planner::Limits limits;
    limits.memory = options.device.memory_bytes;
    limits.accumulation = *most;
    limits.schedules = schedules;
    limits.cuts = options.cuts;
    limits.bounds = bounds;
    limits.activations = options.activations;
    limits.allows_resident_segments = allows_resident_segments;
    Planner planner(dag, profile, std::move(limits), std::move(programs));
    return with_chunks(planner.choose());
  } else {
    return {};
  }
}

/// All ranks plan for the smallest device and the slowest link, so that they plan the same; also where nothing is
/// swapped, since messages go by host memory if those of one rank do.
template <class... Policies>
auto Trainer<Policies...>::agreed_options() -> Options {
  Options agreed = options_;
  const auto least = [this](const char* what, auto own) {
    decltype(own) result = 0;
    for (const auto value : comm::gather_numbers(*progress_, what, own)) {
      if (value > 0) result = result > 0 ? (std::min)(result, value) : value;
    }
    return result;
  };
  const auto most = [this](const char* what, double own) {
    const auto all = comm::gather_numbers(*progress_, what, own);
    return *std::max_element(all.begin(), all.end());
  };
  auto& device = agreed.device;
  device.memory_bytes = static_cast<Bytes>(
      least("device memory", static_cast<std::int64_t>(options_.device.memory_bytes)));
  if constexpr (requires { device.link_bytes_per_second; }) {
    device.link_bytes_per_second =
        least("link of the device", options_.device.link_bytes_per_second);
    device.link_latency = most("latency of the link", options_.device.link_latency);
    device.slowdown = most("slowdown of the device", options_.device.slowdown);
  }
  if constexpr (optim::needs_whole_matrices<Rule> && requires { device.threads; }) {
    const auto threads = comm::gather_numbers(*progress_, "threads of the device", device_.threads());
    device.threads = *std::max_element(threads.begin(), threads.end());
  }
  if constexpr (requires { device.poison_freed; }) {
    device.poison_freed = most("checks of memory", options_.device.poison_freed ? 1 : 0) > 0;
  }
  return agreed;
}

/// Of the scratch memory, too, all plan for the most: with more threads a rank needs more of it.
template <class... Policies>
void Trainer<Policies...>::plan_step() {
  model_.enlarge_workspaces(comm::largest_of_ranks(*progress_, "workspaces", model_.workspaces()));
  std::vector<int> counts = options_.counts();
  if (options_.virtual_ranks == 1) {
    const std::vector<int> all =
        comm::gather_numbers(*progress_, "micro-batches", counts.front());
    const run::Topology topology = topology_of(options_, ranks());
    counts.clear();
    for (int replica = 0; replica < topology.replicas; ++replica) {
      counts.push_back(all[static_cast<std::size_t>(topology.rank(replica, 0))]);
      for (const int member : topology.pipeline(replica).members) {
        const int count = all[static_cast<std::size_t>(member)];
        if (count == counts.back()) continue;
        throw OptionError("reef::Trainer: rank ", topology.rank(replica, 0), " has micro_batches ",
                          counts.back(), ", rank ", member, " of the same replica ", count,
                          ".\n  fix: one count for all stages of a replica.");
      }
    }
  }
  plan_ = plan_of(model_.dag(), agreed_options(), ranks(), std::move(counts));
}

template <class... Policies>
StepEstimate Trainer<Policies...>::estimate(const Model& model, const Options& options, int ranks,
                                            int rank, std::vector<int> micro_batches) {
  possible(options);
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw OptionError("reef::Trainer::estimate: rank ", rank, " of ", ranks,
                      " ranks.\n  fix: at least one rank, and one of them.");
  }
  const Model served = model.serving(device::threads_of(options.device));
  const run::StepPlan plan = plan_of(served.dag(), options, ranks, std::move(micro_batches));
  return detail::estimate_of(policies, plan, rank);
}

template <class... Policies>
std::vector<StepEstimate> Trainer<Policies...>::foresee(const Model& model, const Options& options, int ranks,
                                                        const detail::EachVariant& each) {
  possible(options);
  if (ranks < 1) {
    throw OptionError("reef::Trainer::foresee: ", ranks, " ranks.\n  fix: at least one.");
  }
  const Model served = model.serving(device::threads_of(options.device));
  const run::StepPlan plan = plan_of(served.dag(), options, ranks, {});
  return detail::foresee(policies, plan, options.profile ? &*options.profile : nullptr, each);
}

template <class... Policies>
std::vector<schedule::Program> Trainer<Policies...>::programs(const Model& model,
                                                              const Options& options, int ranks,
                                                              std::vector<int> micro_batches,
                                                              int variant) {
  possible(options);
  if (ranks < 1) {
    throw OptionError("reef::Trainer::programs: ", ranks, " ranks.\n  fix: at least one.");
  }
  const Model served = model.serving(device::threads_of(options.device));
  const run::StepPlan plan = plan_of(served.dag(), options, ranks, std::move(micro_batches));
  std::vector<schedule::Program> programs = detail::programs_of(policies, plan, {run::Purpose::training, variant});
  for (schedule::Program& program : programs) {
    if (options.profile) run::set_costs(program, plan, *options.profile);
  }
  return programs;
}

}  // namespace v0
}  // namespace reef
