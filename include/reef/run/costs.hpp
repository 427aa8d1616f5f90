#pragma once

#include <cstddef>

#include <reef/graph/chain.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

namespace reef::inline v0::run {

/// The speeds of a profile for schedule::simulate, beside those of its operators.
inline schedule::Machine machine_of(const profile::Profile& profile) {
  return {.memory_bytes_per_second = profile.memory_bytes_per_second,
          .copy_bytes_per_second = profile.copy_bytes_per_second,
          .copy_latency = profile.copy_latency};
}

/// Gives forwards, recomputations and backwards the seconds of a profile. What else there is has
/// operations, bytes and copies.
///
/// Throws OptionError unless the profile is of the plan's model.
inline void set_costs(schedule::Program& program, const StepPlan& plan,
                      const profile::Profile& profile) {
  graph::detail::require_operators_of(*plan.dag, profile);
  for (schedule::Instruction& instruction : program.round) {
    const bool forward = instruction.kind == "Forward";
    const bool again = instruction.kind == "Recompute";
    if (!forward && !again && instruction.kind != "Backward") continue;
    const graph::Segment& segment = plan.segments[static_cast<std::size_t>(instruction.index)];
    Seconds seconds = 0;
    for (int node = segment.first; node < segment.last; ++node) {
      const profile::OperatorProfile& entry = profile.operators[static_cast<std::size_t>(node)];
      if (again && !segment.plan(node).recomputed) continue;
      seconds += forward || again ? entry.forward_s : entry.backward_s;
    }
    instruction.cost.seconds = seconds;
  }
}

}  // namespace reef::inline v0::run
