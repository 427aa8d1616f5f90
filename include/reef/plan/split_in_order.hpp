#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/plan/pipeline_plan.hpp>
#include <reef/plan/pipeline_problem.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The plan that these stages are, of whatever device and however often; feasible where each fits.
PipelinePlan plan_of(const PipelineProblem& problem, std::vector<Stage> stages);

/// The plan of least T over devices in that order, by dynamic programming.
///
/// | order  | devices, each at most once; with `skips` any of them may be left out            |
/// | cost   | some dozens of times O(devices^2 operators)                                    |
/// | errors | OptionError for a problem or an order that cannot be                            |
///
/// lower_bound is of that order alone.
///
/// \code
/// // given: const plan::PipelineProblem& problem
/// const plan::PipelinePlan found = plan::split_in_order(problem, {2, 0, 1});
/// \endcode
PipelinePlan split_in_order(const PipelineProblem& problem, const std::vector<int>& order,
                            bool skips = true);

/// By stage of an order, and by the end of its operators, the first operator that its device has memory for with all up
/// to that end; the end itself where it has none. For memory that is no sum over operators.
using StageBegins = std::vector<std::vector<int>>;

/// The plan of least T over all devices in that order whose stages begin no earlier than that; the problem's own
/// memory counts too.
///
/// | errors | OptionError for a problem or an order that cannot be, and begins that are not of its stages and ends |
PipelinePlan split_in_order(const PipelineProblem& problem, const std::vector<int>& order, const StageBegins& earliest);

/// The same number of operators on each device of the order: a baseline.
PipelinePlan equal_operators(const PipelineProblem& problem, const std::vector<int>& order);

/// As nearly the same number of operations on each device of the order as cuts allow: a baseline.
PipelinePlan equal_compute(const PipelineProblem& problem, const std::vector<int>& order);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/split_in_order.ipp>
#endif
