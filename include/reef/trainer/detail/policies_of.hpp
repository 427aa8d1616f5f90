#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/device/cores.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/matrix_rule.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/tied.hpp>
#include <reef/trainer/detail/diagnosis.hpp>
#include <reef/trainer/detail/hooks.hpp>
#include <reef/trainer/detail/planning.hpp>
#include <reef/trainer/detail/policies.hpp>

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

/// The table of a composition's policies. Settings are its TrainerOptions.
template <class Composition, class Options>
struct PoliciesOf {
  using Swap = typename Composition::Swap;
  using Pipeline = typename Composition::Pipeline;
  using Compress = typename Composition::Compress;
  using Optim = typename Composition::Optim;
  using Device = typename Composition::Device;
  using T = typename Composition::Precision::type;
  using Sum = sum_t<T>;
  using Gradient = precision::gradient_t<typename Composition::Precision>;

  static constexpr bool overlapping = optim::overlapping_policy<Optim>;
  static constexpr bool periodic = optim::periodic_policy<Optim>;
  static constexpr bool weights_are_committed = [] {
    if constexpr (overlapping || periodic) return static_cast<bool>(Optim::weights_are_committed);
    return true;
  }();

  static constexpr bool counts_micro_batches = requires { requires Optim::counts_micro_batches; };

  static int variants([[maybe_unused]] const run::StepPlan& plan) {
    if constexpr (periodic) return Optim::variants(plan);
    return 1;
  }

  static run::StepBuilder build(const run::StepPlan& plan, int rank, ProgramKey key) {
    const run::Purpose purpose = key.purpose;
    run::StepBuilder builder(plan, rank, purpose, key.variant);
    const run::Pass model = [](run::StepBuilder& step) {
      append(step, [](run::StepBuilder& models) {
        Pipeline::add(models);
        Swap::add(models);
      });
    };
    hooks::reserve<Optim>(builder);
    if (!weights_are_committed) require_tied_buffer(builder, Optim::name);
    hooks::reserve<Swap>(builder);
    hooks::reserve<Pipeline>(builder);
    hooks::reserve<Compress>(builder);
    if (purpose == run::Purpose::diagnosis) {
      add_diagnosis(builder, model);
      return builder;
    }
    Optim::add(builder, model);
    require_verdict(builder, Optim::name);
    keep_verdict(builder);
    run::add_tied_weights(builder);
    Compress::add(builder);
    return builder;
  }

  static ProgramKey next_program([[maybe_unused]] const run::StepPlan& plan,
                                 [[maybe_unused]] const run::StepState& state) {
    if constexpr (overlapping) {
      if (state.committed < Optim::warm_up) return {run::Purpose::warm_up};
    }
    if constexpr (periodic)
      return {run::Purpose::training, Optim::variant_after(plan, state.began, state.committed)};
    return {};
  }

  static const Options& options_in(const TrainerSettings& settings) {
    return static_cast<const Options&>(settings);
  }

  static PlannedDevice planned_device(const TrainerSettings& settings) {
    const typename Device::Options& device = options_in(settings).device;
    PlannedDevice planned{Device::discrete(device), device.memory_bytes};
    if constexpr (requires { device.poison_freed; })
      planned.poisons_dead_memory = device.poison_freed;
    return planned;
  }
  static void fill_in(run::StepPlan& plan, const TrainerSettings& settings) {
    const Options& options = options_in(settings);
    optim::plan_whole_matrices<Device, Sum>(plan, options.rule, device::threads_of(options.device));
    hooks::plan<Optim>(plan, options.optim);
    hooks::plan<Swap>(plan, options.swap);
    hooks::plan<Pipeline>(plan, options.pipeline);
    hooks::plan<Compress>(plan, options.compress);
  }
  static void add_to(Hash& hash, const TrainerSettings& settings) {
    const Options& options = options_in(settings);
    hooks::add_to<Optim>(hash, options.optim);
    hooks::add_to<Swap>(hash, options.swap);
    hooks::add_to<Pipeline>(hash, options.pipeline);
    hooks::add_to<Compress>(hash, options.compress);
  }
  static std::array<std::uint64_t, 4> hashes(const TrainerSettings& settings) {
    const Options& options = options_in(settings);
    return {hooks::hash_of<Optim>(options.optim), hooks::hash_of<Swap>(options.swap),
            hooks::hash_of<Pipeline>(options.pipeline), hooks::hash_of<Compress>(options.compress)};
  }

  /// What the planner of a swap policy chooses: by the profile, or by what is estimated: operations and copies, the
  /// link's rate being known.
  static run::Choice choose_swap(const graph::Dag& dag, const TrainerSettings& settings, int ranks,
                                 const std::vector<int>& micro_batches) {
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
    const int busiest =
        options.virtual_ranks > 1 ? 0 : static_cast<int>(most - micro_batches.begin());
    const run::Topology topology = topology_of(table, options, ranks);
    std::vector<int> bounds;
    if (options.cuts.empty()) {
      bounds = bounds_of_chunks(dag, topology, options.profile ? &*options.profile : nullptr);
    }
    const auto with_chunks = [&](run::Choice choice) {
      choice.chunk_of_segment = run::chunks_between(choice.cuts, bounds);
      return choice;
    };
    typename Planner::Programs programs;  // one by one: of braces nvcc sees no end
    std::map<std::vector<int>, run::StepPlan>
        outlines;  // by cuts, which are far fewer than candidates
    programs.plan = [&](const run::Choice& open) {
      const run::Choice choice = with_chunks(open);
      auto outline = outlines.find(choice.cuts);
      if (outline == outlines.end())
        outline =
            outlines
                .emplace(choice.cuts, plan_skeleton(table, dag, options, ranks, micro_batches, choice))
                .first;
      return complete_plan(table, outline->second, options, choice);
    };
    programs.step = [busiest](const run::StepPlan& plan) {
      return heaviest_program(table, plan, busiest);
    };
    programs.stages = static_cast<std::size_t>(topology.stages);
    programs.memory = [](const run::StepPlan& plan) { return max_memory(table, plan); };
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
  }

  static constexpr Policies table = [] {
    Policies all;
    all.overlapping = overlapping;
    all.periodic = periodic;
    all.weights_are_committed = weights_are_committed;
    if constexpr (overlapping) all.warms_up = Optim::warm_up > 0;
    all.counts_micro_batches = counts_micro_batches;
    all.updates_within_a_step = requires { requires Optim::updates_within_a_step; };
    if constexpr (requires { Pipeline::spans_stages; }) all.spans_stages = Pipeline::spans_stages;
    all.element = element_of<T>;
    all.gradient = element_of<Gradient>;
    all.variants = &variants;
    all.next_program = &next_program;
    all.build = &build;
    all.state = &hooks::state_of<Composition>;
    all.device = &planned_device;
    if constexpr (requires(const Options& options) {
                    Pipeline::stage_of_chunk(1, options.pipeline);
                  }) {
      all.stage_of_chunk = [](int stages, const TrainerSettings& settings) {
        return Pipeline::stage_of_chunk(stages, options_in(settings).pipeline);
      };
    }
    if constexpr (Swap::offloads_to_host) {
      all.offloads_to_host = true;
      all.swapping = Swap::schedules().front();
      all.choose = &choose_swap;
    }
    all.fill_in = &fill_in;
    all.add_to = &add_to;
    all.hashes = &hashes;
    return all;
  }();
};

}  // namespace detail
}  // namespace v0
}  // namespace reef
