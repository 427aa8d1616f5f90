#pragma once

#include <reef/core/error.hpp>
#include <reef/plan/allocation.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The most devices that allocate() accepts with any_shape and stage_flops: allocate() must then try a shape (stages x
/// pipelines) for each number of stages, from 1 to the number of devices.
inline constexpr int max_devices_of_any_shape = 512;

/// Places the D_PP stages of D_DP pipelines on devices, with the least communication time of an iteration that its
/// search finds (Eq. 1 to 4, see allocation_cost).
///
/// | method | structured layouts, replica exchange on the cost itself, branch and bound over classes of |
/// |        | interchangeable devices (detail/allocation_search.hpp)                                    |
/// | exact  | if branch and bound ends within its limit of work: in small networks, or with few classes |
/// | bound  | lower_bound is always set (detail/allocation_bound.hpp); `optimal` if the cost meets it   |
/// | same   | the same result for the same problem, seed and effort, with any number of threads; names  |
/// |        | and order of devices change no cost, since devices are sorted by the structure of links   |
/// | shape  | with any_shape, effort 0 tries each D_PP x floor(N / D_PP) for N devices, or without      |
/// |        | stage_flops those with the fewest idle devices; the best, at most 64, get one effort, the |
/// |        | better half another, and so on; lower_bound is that of the tried shapes alone             |
/// | budget | the search stops at the last whole effort within it; effort 0 is always finished          |
/// | memory | about 150 N^2 bytes at most; with any_shape a few hundred megabytes more                  |
/// | errors | OptionError, naming the field; with too few devices with room, `feasible` is false        |
///
/// Source: Yuan et al., arXiv 2206.01288, section 3, for the problem. The search is ours.
///
/// \code
/// // given: const profile::Network& network
/// plan::AllocationProblem problem;
/// problem.network = network;
/// problem.stages = 4;
/// problem.pipelines = 2;
/// problem.activation_bytes = 5e8;
/// problem.gradient_bytes = 2e9;
/// const plan::Allocation found = plan::allocate(problem, {.seed = 1, .budget = 10});
/// \endcode
Allocation allocate(const AllocationProblem& problem, const AllocationOptions& options = {});

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/allocate.ipp>
#endif
