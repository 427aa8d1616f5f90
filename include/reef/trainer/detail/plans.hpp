#pragma once

// The members of Trainer that say what a step will be, before there is one: plans, estimates, programs. How a plan follows from
// settings is in planning.hpp; this is what policies and devices have part in.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/device/cores.hpp>
#include <reef/optim/matrix_rule.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/trainer/detail/plan_of_all.hpp>
#include <reef/trainer/detail/planning.hpp>
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

}  // namespace detail

template <class... Policies>
auto Trainer<Policies...>::planned(const Model& model, Options options, int ranks,
                                   std::vector<int> micro_batches) -> Options {
  possible(options);
  const Model served = model.serving(device::threads_of(options.device));
  detail::write_choice(detail::plan_of(policies, served.dag(), options, ranks, std::move(micro_batches)), options);
  return options;
}

/// By the profile, or by what is estimated: operations and copies, the link's rate being known.
template <class... Policies>
run::Choice Trainer<Policies...>::choose_swap([[maybe_unused]] const graph::Dag& dag,
                                              [[maybe_unused]] const TrainerSettings& settings, [[maybe_unused]] int ranks,
                                              [[maybe_unused]] const std::vector<int>& micro_batches) {
  if constexpr (Swap::offloads_to_host) {
    using Planner = typename Swap::Planner;
    const Options& options = options_in(settings);
    const auto profile = Planner::template profile_of<Device>(dag, options);
    const auto own = Swap::schedules();
    std::vector<run::SwapSchedule> schedules(own.begin(), own.end());
    if (options.swapping) schedules = {*options.swapping};
    bool allows_resident_segments = false;
    if constexpr (requires { Swap::allows_resident_segments; })
      allows_resident_segments = Swap::allows_resident_segments && !options.swapping;
    const auto most = std::max_element(micro_batches.begin(), micro_batches.end());
    const int busiest = options.virtual_ranks > 1 ? 0 : static_cast<int>(most - micro_batches.begin());
    const run::Topology topology = detail::topology_of(policies, options, ranks);
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
        outline = outlines.emplace(choice.cuts, detail::outline_of(policies, dag, options, ranks, micro_batches, choice)).first;
      return detail::filled_in(policies, outline->second, options, choice);
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
  auto& device = agreed.device;
  detail::AgreedDevice own{device.memory_bytes};
  if constexpr (requires { device.link_bytes_per_second; }) {
    own.link_bytes_per_second = device.link_bytes_per_second;
    own.link_latency = device.link_latency;
    own.slowdown = device.slowdown;
  }
  constexpr bool asks_threads = optim::needs_whole_matrices<Rule> && requires { device.threads; };
  if constexpr (asks_threads) own.threads = device_.threads();
  if constexpr (requires { device.poison_freed; }) own.checks_memory = device.poison_freed;
  const detail::AgreedDevice all = detail::agreed_device(*progress_, own);
  device.memory_bytes = all.memory_bytes;
  if constexpr (requires { device.link_bytes_per_second; }) {
    device.link_bytes_per_second = all.link_bytes_per_second;
    device.link_latency = all.link_latency;
    device.slowdown = all.slowdown;
  }
  if constexpr (asks_threads) device.threads = all.threads;
  if constexpr (requires { device.poison_freed; }) device.poison_freed = all.checks_memory;
  return agreed;
}

/// Of the scratch memory, too, all plan for the most: with more threads a rank needs more of it.
template <class... Policies>
void Trainer<Policies...>::plan_step() {
  model_.enlarge_workspaces(comm::largest_of_ranks(*progress_, "workspaces", model_.workspaces()));
  std::vector<int> counts = detail::counts_of_all(policies, *progress_, options_);
  plan_ = detail::plan_of(policies, model_.dag(), agreed_options(), ranks(), std::move(counts));
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
  const run::StepPlan plan = detail::plan_of(policies, served.dag(), options, ranks, std::move(micro_batches));
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
  const run::StepPlan plan = detail::plan_of(policies, served.dag(), options, ranks, {});
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
  const run::StepPlan plan = detail::plan_of(policies, served.dag(), options, ranks, std::move(micro_batches));
  std::vector<schedule::Program> programs = detail::programs_of(policies, plan, {run::Purpose::training, variant});
  for (schedule::Program& program : programs) {
    if (options.profile) run::set_costs(program, plan, *options.profile);
  }
  return programs;
}

}  // namespace v0
}  // namespace reef
