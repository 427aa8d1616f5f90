#pragma once

#include <cstdint>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/plan/pipeline_plan.hpp>
#include <reef/plan/pipeline_problem.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Options of op_fence(), which assigns operators to devices: the effort of the search.
struct OpFenceOptions {
  std::uint64_t seed = 0;
  int effort = -1;  ///< number of rounds of the search, fewer if a plan is proven best; -1: 4, or as the budget allows
  Seconds budget = 0;  ///< time limit in seconds: only rounds finished within it count; 0: no limit
  bool every_device = false;  ///< true: each device must run at least one operator; false: some may be left out
};

/// Returns the clusters of a problem's devices by the bandwidths of their links, with ClusterWeights::log.
Clusters clusters_of(const PipelineProblem& problem);

/// Returns OP-Fence's order of devices: one cluster after the other, in the order whose slowest link is the fastest
/// for messages of the median size of a cut.
std::vector<int> fence_order(const PipelineProblem& problem, const Clusters& clusters);

/// Plans which device runs which operators, and in which order, for the least time T of a batch (see PipelineTime):
///
///     T = sum over stages p of  C_p + R_p  +  (n_b - 1) max over p of  max(C_p, R_p)
///
/// Devices may be left out, unless every_device is set, and links may differ by direction. The search starts from the
/// orders of fence_order() and others, and splits each order exactly. Plans in which a device may run several stages
/// give a lower bound. Such plans below the best plan are then enumerated: if the best of them repeats no device, or
/// none is better, the plan is proven best. This succeeds with up to a dozen devices, often with more, and for
/// certain with every_device and up to six devices, all of whose orders are tried.
///
/// | order  | deterministic by seed and effort; the order of devices in the problem does not change T    |
/// | cost   | the starts take some seconds for a thousand devices, then each round half a second or more |
/// | budget | the search stops at the last whole round within it; the starts are always finished         |
/// | errors | OptionError, naming the figure, for an invalid problem                                     |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 4 (OP-Fence): clusters and connected parts. Deviation:
/// orders and shares, which the paper leaves open, are searched, and devices may be left out.
///
/// \code
/// // given: const plan::PipelineProblem& problem
/// const plan::PipelinePlan found = plan::op_fence(problem, {.effort = 8});
/// const Seconds T = found.time.pipelined;
/// \endcode
PipelinePlan op_fence(const PipelineProblem& problem, const OpFenceOptions& options = {});

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/op_fence.ipp>
#endif
