#pragma once

#include <vector>

#include <reef/graph/chain.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/run/views.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Returns the speeds of a profile for schedule::simulate, other than those of its operators.
schedule::Machine machine_of(const profile::Profile& profile);

/// Returns the times of each segment of a plan, by a profile; without one, in proportion to its operations.
///
/// Throws OptionError unless the profile is of the plan's model.
std::vector<SegmentTimes> segment_times(const StepPlan& plan, const profile::Profile* profile);

/// Gives forwards, recomputations and backwards the seconds of a profile, and instructions that work on host memory, as
/// updates of weights that live there, the seconds by its rate of host memory. All other instructions have operations,
/// bytes and copies.
///
/// Throws OptionError unless the profile is of the plan's model.
///
/// \code
/// // given: schedule::Program& program, const run::StepPlan& plan, const profile::Profile& profile
/// run::set_costs(program, plan, profile);
/// const auto world = schedule::World::uniform(plan.ranks(), run::machine_of(profile), {});
/// \endcode
void set_costs(schedule::Program& program, const StepPlan& plan,
               const profile::Profile& profile);

/// Returns the seconds of each instruction of a round on its lane, by a profile; 0 for copies and messages, which links
/// limit.
///
/// Throws OptionError unless the profile is of the plan's model.
std::vector<Seconds> durations(schedule::Program program, const StepPlan& plan, const profile::Profile& profile);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/costs.ipp>
#endif
