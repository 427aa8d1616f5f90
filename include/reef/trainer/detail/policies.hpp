#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/dag.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/state_range.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>
#include <reef/trainer/estimate.hpp>
#include <reef/trainer/settings.hpp>

/// \file
/// What a composition of policies makes of a plan, as a table of functions: who plans, proves, simulates and estimates
/// steps is no template of policies.

namespace reef {
inline namespace v0 {
namespace detail {

/// Names a program of a composition. Training may have several variants, of which a step runs
/// one.
struct ProgramKey {
  run::Purpose purpose = run::Purpose::training;
  int variant = 0;
};

/// What a device is to a plan.
struct PlannedDevice {
  bool discrete = false;
  Bytes memory_bytes = 0;  ///< 0: no bound is given
  bool poisons_dead_memory = false;
};

/// What a composition's policies are and do. Settings are always those of the composition itself: its TrainerOptions.
struct Policies {
  bool overlapping = false;           ///< rounds reduce beside micro-batches
  bool periodic = false;              ///< ranks step on their own between outer steps
  bool weights_are_committed = true;  ///< on all ranks after a step
  bool warms_up = false;
  bool counts_micro_batches = false;  ///< a step's number of them, and which they are, is the optimizer's
  bool updates_within_a_step = false;
  bool offloads_to_host = false;
  bool spans_stages = false;
  Element element = Element::float32;   ///< of parameters
  Element gradient = Element::float32;  ///< as kept and sent
  run::SwapSchedule swapping{};         ///< the first of the swap policy's, if it offloads

  int (*variants)(const run::StepPlan& plan) = nullptr;  ///< of the training program
  /// What the step to come runs.
  ProgramKey (*next_program)(const run::StepPlan& plan, const run::StepState& state) = nullptr;
  run::StepBuilder (*build)(const run::StepPlan& plan, int rank, ProgramKey key) = nullptr;
  std::vector<run::StateRange> (*state)(const run::StepBuilder& builder) = nullptr;

  PlannedDevice (*device)(const TrainerSettings& settings) = nullptr;
  /// Of a pipeline policy whose stages have several chunks; null: of none else.
  std::vector<int> (*stage_of_chunk)(int stages, const TrainerSettings& settings) = nullptr;
  /// Cuts, swap schedule and activations that a swap policy's planner chooses; null: there is none.
  run::Choice (*choose)(const graph::Dag& dag, const TrainerSettings& settings, int ranks,
                        const std::vector<int>& micro_batches) = nullptr;
  /// What each policy fills in of a plan: its hook `plan`.
  void (*fill_in)(run::StepPlan& plan, const TrainerSettings& settings) = nullptr;
  /// What ranks must have alike and programs do not show: its hook `hash`, of all together and of optimizer, swap
  /// policy, pipeline policy and compressor.
  void (*add_to)(Hash& hash, const TrainerSettings& settings) = nullptr;
  std::array<std::uint64_t, 4> (*hashes)(const TrainerSettings& settings) = nullptr;

  /// The programs that there are.
  [[nodiscard]] std::vector<ProgramKey> programs_in(const run::StepPlan& plan) const;
};

/// A program of all ranks, staged where messages are made of host memory.
std::vector<schedule::Program> programs_of(const Policies& policies, const run::StepPlan& plan,
                                           ProgramKey key);

/// Of a rank's programs, of all that there are.
std::uint64_t hash_of_programs(const Policies& policies, const run::StepPlan& plan, int rank);

/// What a step takes on a rank.
StepEstimate estimate_of(const Policies& policies, const run::StepPlan& plan, int rank);

using EachVariant = std::function<void(int variant, std::vector<schedule::Program> programs,
                                       std::vector<schedule::Placement> placements)>;

/// The same of all ranks, and what there is to simulate: see Trainer::estimate_all. Programs of ranks that differ in
/// messages alone are placed together.
std::vector<StepEstimate> estimate_all(const Policies& policies, const run::StepPlan& plan,
                                  const profile::Profile* profile, const EachVariant& each);

/// The training program of the stage that takes the most memory, of replica `busiest`, which stands for all. What a
/// device checks does not take part.
schedule::Program heaviest_program(const Policies& policies, const run::StepPlan& plan,
                                   int busiest);

/// The most device memory that a program of any rank takes.
Bytes max_memory(const Policies& policies, const run::StepPlan& plan);

}  // namespace detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/detail/policies.ipp>
#endif
