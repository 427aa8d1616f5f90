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

/// Options of op_fence: the effort of the search.
struct OpFenceOptions {
  std::uint64_t seed = 0;
  int effort = -1;     ///< the rounds; fewer with a proof; -1: 4, or as many as the budget has time for
  Seconds budget = 0;  ///< the time limit: only rounds finished within it count; 0: no limit
  bool every_device = false;  ///< each device has an operator at least; else some may be left out
};

/// Returns the clusters of a problem's devices by their links, with log weights.
Clusters clusters_of(const PipelineProblem& problem);

/// Returns OP-Fence's order of devices: clusters one after the other, with the slowest link as fast as can be, for
/// messages of the median cut.
std::vector<int> fence_order(const PipelineProblem& problem, const Clusters& clusters);

/// Plans which device runs which operators, and in which order, for the least T: searches order and split together.
///
///     T = sum over stages p of  C_p + R_p  +  (n_b - 1) max over p of  max(C_p, R_p)
///
/// Devices may be left out, unless every_device, and links differ by direction. Starts are orders of clusters
/// (fence_order) and others; a search over orders splits each exactly. Plans in which devices may come twice give a
/// lower bound. Plans below the answer are then enumerated: if in the best no device comes twice, or none is better,
/// the answer is proven. That holds with up to a dozen devices, and often with more; with every_device for certain up
/// to six devices, all of whose orders are tried.
///
/// | order  | deterministic by seed and effort; devices in another order have the same T                |
/// | cost   | the starts, some seconds of a thousand devices; then about half a second a round, or more |
/// | budget | the last whole round within it; the starts are always finished                            |
/// | errors | OptionError, naming the figure, for an invalid problem                                    |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 4 (OP-Fence): clusters and connected parts. Deviation:
/// what the paper leaves open, orders and shares, is searched, and devices may be left out.
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
