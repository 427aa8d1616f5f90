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

/// Returns the rates (operations, memory and copies per second) of a profile's device for schedule::simulate; the times
/// of operators come from set_costs().
schedule::Machine machine_of(const profile::Profile& profile);

/// Returns the times of each segment of a plan's model for a micro-batch: from a profile, or if it is null, in
/// proportion to its operations.
///
/// Throws OptionError unless the profile is that of the plan's model.
std::vector<SegmentTimes> segment_times(const StepPlan& plan, const profile::Profile* profile);

/// Sets the costs of a program's instructions: forwards, recomputations and backwards get the seconds of a profile;
/// instructions that work on host memory, such as updates of weights stored there, get seconds by the profile's rate of
/// host memory. All other instructions keep their operations, bytes and copies.
///
/// Throws OptionError unless the profile is that of the plan's model.
///
/// \code
/// // given: schedule::Program& program, const run::StepPlan& plan, const profile::Profile& profile
/// run::set_costs(program, plan, profile);
/// const auto world = schedule::World::uniform(plan.ranks(), run::machine_of(profile), {});
/// \endcode
void set_costs(schedule::Program& program, const StepPlan& plan,
               const profile::Profile& profile);

/// Returns the seconds that each instruction of a rank's program needs by a profile; 0 for copies and messages, whose
/// times depend on links.
///
/// Throws OptionError unless the profile is that of the plan's model.
std::vector<Seconds> durations(schedule::Program program, const StepPlan& plan, const profile::Profile& profile);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/costs.ipp>
#endif
