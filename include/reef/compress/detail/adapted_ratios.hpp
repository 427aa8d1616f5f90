#pragma once

#include <vector>

#include <reef/plan/adatopk.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// The planner's dense number has 4 bytes. One of bf16 has 2, and is sent in 4 with an index of 2: three times as many.
inline int index_bytes_of(const run::StepPlan& plan) { return plan.dag->element == Element::bfloat16 ? 8 : 2; }

/// No ratio but 1 is planned below: a message would not shrink.
inline double least_ratio(const run::StepPlan& plan) { return (4 + static_cast<double>(index_bytes_of(plan))) / 4; }

/// By remote edge of one direction, its ratio by plan::adatopk, 1 where it is to stay as it is; 0 of other edges. A
/// link is what one stage sends another of a micro-batch: of replicas the slowest.
std::vector<double> adapted_ratios(const run::StepPlan& plan, const schedule::World& network,
                                   schedule::Traffic traffic, double ratio, Seconds compute);

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/adapted_ratios.ipp>
#endif
