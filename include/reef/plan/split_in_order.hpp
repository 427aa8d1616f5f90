#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/plan/pipeline_plan.hpp>
#include <reef/plan/pipeline_problem.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Returns the pipeline plan with these stages, of which several may be on one device; feasible if each fits its
/// device.
PipelinePlan plan_of(const PipelineProblem& problem, std::vector<Stage> stages);

/// Returns the pipeline plan of least time.pipelined over devices in a given order, by dynamic programming.
///
/// | order  | devices, each at most once; with `skips` any of them may be left out |
/// | cost   | some dozens of times O(devices^2 operators)                          |
/// | errors | OptionError for an invalid problem or order                          |
///
/// The plan's lower_bound is a bound for the given order alone.
///
/// \code
/// // given: const plan::PipelineProblem& problem
/// const plan::PipelinePlan found = plan::split_in_order(problem, {2, 0, 1});
/// \endcode
PipelinePlan split_in_order(const PipelineProblem& problem, const std::vector<int>& order,
                            bool skips = true);

/// The earliest first operators of stages, by stage of an order and by `end`: the lowest operator `first` for which the
/// stage's device has memory for the operators [first, end), or `end` if there is none. It serves memory that is not a
/// sum over operators.
using StageBegins = std::vector<std::vector<int>>;

/// Returns the pipeline plan of least time.pipelined that uses all devices of a given order and whose stages begin no
/// earlier than `earliest`; PipelineProblem::memory is checked, too.
///
/// | errors | OptionError for an invalid problem or order, and for a wrong number of entries in `earliest` |
PipelinePlan split_in_order(const PipelineProblem& problem, const std::vector<int>& order, const StageBegins& earliest);

/// Returns the pipeline plan with as nearly as possible equally many operators on each device of the order: a baseline.
PipelinePlan equal_operators(const PipelineProblem& problem, const std::vector<int>& order);

/// Returns the pipeline plan with as nearly as possible equally many operations on each device of the order: a
/// baseline.
PipelinePlan equal_compute(const PipelineProblem& problem, const std::vector<int>& order);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/split_in_order.ipp>
#endif
