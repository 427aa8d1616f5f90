#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/plan/pipeline_plan.hpp>
#include <reef/plan/pipeline_problem.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Returns the plan of these stages, on any devices, of which one may come several times; feasible if each stage fits.
PipelinePlan plan_of(const PipelineProblem& problem, std::vector<Stage> stages);

/// Returns the plan of least T over devices in a given order, by dynamic programming.
///
/// | order  | devices, each at most once; with `skips` any of them may be left out |
/// | cost   | some dozens of times O(devices^2 operators)                          |
/// | errors | OptionError for an invalid problem or order                          |
///
/// The plan's lower_bound is that of the given order alone.
///
/// \code
/// // given: const plan::PipelineProblem& problem
/// const plan::PipelinePlan found = plan::split_in_order(problem, {2, 0, 1});
/// \endcode
PipelinePlan split_in_order(const PipelineProblem& problem, const std::vector<int>& order,
                            bool skips = true);

/// The earliest begins of stages, by stage of an order and by the end of its operators: the first operator from which
/// on the stage's device has memory for all up to that end; the end itself if there is none. For memory that is no sum
/// over operators.
using StageBegins = std::vector<std::vector<int>>;

/// Returns the plan of least T over all devices in a given order whose stages begin no earlier than `earliest`; the
/// problem's own memory counts too.
///
/// | errors | OptionError for an invalid problem or order, and begins that do not match its stages and ends |
PipelinePlan split_in_order(const PipelineProblem& problem, const std::vector<int>& order, const StageBegins& earliest);

/// Returns the plan with the same number of operators on each device of the order: a baseline.
PipelinePlan equal_operators(const PipelineProblem& problem, const std::vector<int>& order);

/// Returns the plan with as nearly the same number of operations on each device of the order as cuts allow: a baseline.
PipelinePlan equal_compute(const PipelineProblem& problem, const std::vector<int>& order);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/split_in_order.ipp>
#endif
