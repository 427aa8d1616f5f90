#pragma once

#include <reef/core/error.hpp>
#include <reef/plan/allocation.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Returns the communication and compute time of an iteration for a placement of stages on devices, by Eq. 1, with the
/// pipelines and the order of stages that sigma has.
///
///     compute = max_d stage_flops / speed(d)
///     datap = max_j max_{d in C_j} sum_{d' in C_j, d' != d} 2 (alpha + c_dp / (D_DP beta))
///     pipelinep = sum_j max_i 2 (alpha + c_pp / beta) of the link between stages j and j + 1 of pipeline i
///
/// | sigma  | D_DP pipelines of D_PP devices, those of stage j being C_j; devices may be left out                |
/// | cost   | O(N^2) for N devices                                                                               |
/// | errors | OptionError for another shape, a device that does not exist, that is placed twice, or is too small |
///
/// Source: Yuan et al., Decentralized Training of Foundation Models in Heterogeneous Environments,
/// arXiv 2206.01288, Eq. 1 to 4, alpha being a link's latency and beta its rate. Deviation: the term `compute`.
///
/// \code
/// // given: const plan::AllocationProblem& problem
/// const plan::Placement sigma{{0, 1}, {2, 3}};  // two pipelines of two devices
/// const Seconds iteration = plan::allocation_cost(problem, sigma).total();
/// \endcode
AllocationCost allocation_cost(const AllocationProblem& problem, const Placement& sigma);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/allocation_cost.ipp>
#endif
