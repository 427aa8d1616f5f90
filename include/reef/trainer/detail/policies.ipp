#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/costs.hpp>
#include <reef/schedule/hash.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/trainer/detail/policies.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

REEF_INLINE std::vector<ProgramKey> Policies::programs_in(const run::StepPlan& plan) const {
  using run::Purpose;
  std::vector<ProgramKey> all{{Purpose::training}, {Purpose::evaluation}, {Purpose::diagnosis}};
  if (overlapping) {
    all.push_back({Purpose::prologue});
    if (warms_up) all.push_back({Purpose::warm_up});
  }
  if (!weights_are_committed) all.push_back({Purpose::gather_committed});
  for (int variant = 1; variant < variants(plan); ++variant)
    all.push_back({Purpose::training, variant});
  return all;
}

REEF_INLINE std::vector<schedule::Program> programs_of(const Policies& policies,
                                                       const run::StepPlan& plan, ProgramKey key) {
  std::vector<schedule::Program> programs;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    programs.push_back(run::staged(plan, policies.build(plan, rank, key).program));
  return programs;
}

REEF_INLINE std::uint64_t hash_of_programs(const Policies& policies, const run::StepPlan& plan,
                                           int rank) {
  Hash hash;
  for (const ProgramKey key : policies.programs_in(plan)) {
    const schedule::Program program = run::staged(plan, policies.build(plan, rank, key).program);
    hash.add(schedule::hash_of(std::span(&program, 1)));
  }
  return hash.value();
}

/// Of the training program of a rank, of which a step runs variant 0 the most.
inline StepEstimate estimate_of_training(const Policies& policies,
                                         const run::PlacedProgram& training) {
  const run::StepPlan& plan = training.builder.plan;
  StepEstimate work;
  work.steps = policies.periodic ? plan.outer_schedule.every : 1;
  add_work(work, training.program, work.steps + 1 - policies.variants(plan));
  return estimate_of(training, policies.state(training.builder), work);
}

REEF_INLINE StepEstimate estimate_of(const Policies& policies, const run::StepPlan& plan,
                                     int rank) {
  StepEstimate result = estimate_of_training(
      policies, run::PlacedProgram(policies.build(plan, rank, {run::Purpose::training})));
  for (const ProgramKey key : policies.programs_in(plan)) {
    if (key.purpose == run::Purpose::training && key.variant == 0) continue;
    const run::PlacedProgram placed(policies.build(plan, rank, key));
    add_arenas(result, placed.placement);
    if (key.variant > 0) add_work(result, placed.program, 1);
  }
  return result;
}

REEF_INLINE std::vector<StepEstimate> estimate_all(const Policies& policies, const run::StepPlan& plan,
                                              const profile::Profile* profile,
                                              const EachVariant& each) {
  const int ranks = plan.ranks();
  std::vector<StepEstimate> result;
  for (int variant = 0; variant < policies.variants(plan); ++variant) {
    std::vector<schedule::Program> programs;
    std::vector<schedule::Placement> placements;
    for (int rank = 0; rank < ranks; ++rank) {
      run::PlacedProgram training(policies.build(plan, rank, {run::Purpose::training, variant}));
      if (variant == 0) {
        result.push_back(estimate_of_training(policies, training));
      } else {
        add_work(result[static_cast<std::size_t>(rank)], training.program, 1);
        add_arenas(result[static_cast<std::size_t>(rank)], training.placement);
      }
      if (profile != nullptr) run::set_costs(training.program, plan, *profile);
      programs.push_back(std::move(training.program));
      placements.push_back(std::move(training.placement));
    }
    each(variant, std::move(programs), std::move(placements));
  }
  for (const ProgramKey key : policies.programs_in(plan)) {
    if (key.purpose == run::Purpose::training) continue;
    std::vector<std::optional<std::pair<schedule::Program, schedule::Placement>>> of_stage(
        static_cast<std::size_t>(plan.topology.stages));
    for (int rank = 0; rank < ranks; ++rank) {
      auto& placed = of_stage[static_cast<std::size_t>(plan.topology.stage_of(rank))];
      schedule::Program program = run::staged(plan, policies.build(plan, rank, key).program);
      if (!placed || !schedule::placed_alike(placed->first, program)) {
        schedule::Placement placement = schedule::place(program);
        placed.emplace(std::move(program), std::move(placement));
      }
      add_arenas(result[static_cast<std::size_t>(rank)], placed->second);
    }
  }
  return result;
}

REEF_INLINE schedule::Program heaviest_program(const Policies& policies,
                                               const run::StepPlan& checked, int busiest) {
  std::optional<run::StepPlan> unchecked;
  if (checked.poisons_dead_memory) {
    unchecked = checked;
    unchecked->poisons_dead_memory = false;
  }
  const run::StepPlan& plan = unchecked ? *unchecked : checked;
  schedule::Program heaviest;
  Bytes taken = 0;
  for (int stage = 0; stage < plan.topology.stages; ++stage) {
    const int rank = plan.topology.rank(busiest, stage);
    schedule::Program program =
        run::staged(plan, policies.build(plan, rank, {run::Purpose::training}).program);
    const Bytes bytes =
        plan.topology.stages > 1 ? schedule::max_live(program, schedule::Place::device) : 0;
    if (stage > 0 && bytes <= taken) continue;
    heaviest = std::move(program);
    taken = bytes;
  }
  return heaviest;
}

REEF_INLINE Bytes max_memory(const Policies& policies, const run::StepPlan& plan) {
  Bytes bytes = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {  // shards differ
    for (const ProgramKey key : policies.programs_in(plan)) {
      const run::PlacedProgram placed(policies.build(plan, rank, key));
      bytes = (std::max)(bytes, placed.placement.device_bytes);
    }
  }
  return bytes;
}

}  // namespace detail
}  // namespace v0
}  // namespace reef
