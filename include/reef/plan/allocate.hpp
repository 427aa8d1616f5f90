#pragma once

#include <reef/core/error.hpp>
#include <reef/plan/allocation.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The most devices that allocate takes with any_shape and speeds, by which an idle device has a cost: each number of
/// devices has its shape.
inline constexpr int most_devices_of_any_shape = 512;

/// Places the stages of D_DP pipelines on devices with the least communication time of an iteration that it finds
/// (Eq. 1 to 4, see allocation_cost).
///
/// | method   | structured layouts, replica exchange on the cost itself, branch and bound over classes of  |
/// |          | interchangeable devices (detail/allocation_search.hpp)                                      |
/// | exact    | wherever branch and bound ends within its work: small networks, and those of few classes   |
/// | bound    | always (detail/allocation_bound.hpp); `optimal` where it is met or the search ended        |
/// | same     | for the same problem, seed and effort, whatever the threads; names and order of devices    |
/// |          | change no cost, since devices are sorted by the structure of their links first              |
/// | shape    | with any_shape effort 0 is of every D_PP x floor(N / D_PP), without stage_flops of those  |
/// |          | that leave fewest devices idle; those that may be best, at most 64, get an effort, the better |
/// |          | half a second, ...; the bound is that of these shapes alone                                 |
/// | budget   | the last whole effort within it; effort 0 is always finished                                |
/// | memory   | about 150 N^2 bytes at most, and a few hundred megabytes of other shapes                    |
/// | errors   | OptionError, naming the field; too few devices with room are an answer                      |
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
