#pragma once

#include <functional>
#include <vector>

#include <reef/comm/link_probe.hpp>
#include <reef/comm/progress.hpp>
#include <reef/compress/replan.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// The links between ranks of stages that send each other something, as they are now. Others are not asked for.
schedule::World probed_world(comm::Progress& progress, const run::StepPlan& plan, const comm::ProbeOptions& options);

/// Puts those of the step to come in force. `plan_of(world)`: ratios by edge.
void replan(comm::Progress& progress, const run::StepPlan& plan, const Replan& options,
            const schedule::World* network, run::StepState& state,
            const std::function<std::vector<double>(const schedule::World&)>& plan_of);

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/replanning_by_probes.ipp>
#endif
