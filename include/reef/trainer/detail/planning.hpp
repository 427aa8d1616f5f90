#pragma once

#include <vector>

#include <reef/graph/dag.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/choice.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/run/topology.hpp>
#include <reef/trainer/detail/policies.hpp>
#include <reef/trainer/settings.hpp>

/// \file
/// How a plan of a step follows from a model, settings and ranks, whatever the policies.

namespace reef {
inline namespace v0 {
namespace detail {

/// That of the settings, or all ranks with the whole model; the chunks of stages as the pipeline policy has them.
/// Throws OptionError for a topology that is not of so many ranks, or that the policies cannot run on.
run::Topology topology_of(const Policies& policies, const TrainerSettings& settings, int ranks);

/// Where chunks of a model begin whose cuts are chosen, with 0 and the number of nodes; none if there is one chunk, or
/// a segment's stage is given.
std::vector<int> bounds_of_chunks(const graph::Dag& dag, const run::Topology& topology,
                                  const profile::Profile* profile);

/// A plan in two parts: what its cuts alone decide, and the rest. The second throws OptionError for activations that
/// are to be stashed where nothing is swapped.
run::StepPlan plan_skeleton(const Policies& policies, const graph::Dag& dag, const TrainerSettings& settings, int ranks,
                         std::vector<int> micro_batches, const run::Choice& choice);
run::StepPlan complete_plan(const Policies& policies, run::StepPlan outline, const TrainerSettings& settings,
                        const run::Choice& choice);

/// What the settings say, and the planner of what they leave open. Without counts of micro-batches, those of the
/// settings.
run::StepPlan plan_of(const Policies& policies, const graph::Dag& dag, const TrainerSettings& settings, int ranks,
                      std::vector<int> micro_batches);

/// Writes what was chosen into settings, for which a plan is the same then.
void write_choice(const run::StepPlan& plan, TrainerSettings& settings);

/// Throws OptionError where accumulation adapts, but the optimizer's rounds do not overlap, nor does it count micro-
/// batches itself; and where it does, but something else is to number them.
void require_possible(const Policies& policies, const TrainerSettings& settings);

}  // namespace detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/detail/planning.ipp>
#endif
