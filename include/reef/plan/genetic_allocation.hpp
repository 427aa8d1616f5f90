#pragma once

#include <cstdint>
#include <functional>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/detail/cyclic_moves.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Options of genetic_allocation.
struct GeneticOptions {
  std::uint64_t seed = 0;
  int population = 100;
  int trials = 4900;
  GeneticGain gain = GeneticGain::published;
  /// A function called at every evaluation, with the number of evaluations and the least cost so far. The search stops
  /// if it returns false.
  std::function<bool(int, Seconds)> progress;
};

/// Runs the hybrid genetic search that DT-FM publishes, as a baseline for allocate: no bound, never `optimal`;
/// `effort` counts evaluations.
///
/// A population of random partitions; a trial gives five random devices of one parent's child the groups that they
/// have in another parent, mends the sizes of groups, moves devices along cycles of groups (detail/cyclic_moves.hpp)
/// and computes the exact cost of the result. A child that is no worse than its first parent takes the place of the
/// worse parent.
///
/// | cost   | population + trials evaluations, each S^2 / 2 matchings and a path                |
/// | errors | OptionError where S D is not N, for devices of unequal memory, and as of allocate |
///
/// Source: Yuan et al., arXiv 2206.01288, section 3.4, in the details that its text leaves open as its published
/// program has them. Deviations: draws are of `seed`; where the program reads a link in one direction,
/// ours has the mean of both; its cost function is ours, which gives the same values.
///
/// \code
/// // given: const plan::AllocationProblem& problem
/// plan::GeneticOptions options;
/// options.trials = 1000;
/// const plan::Allocation baseline = plan::genetic_allocation(problem, options);
/// \endcode
Allocation genetic_allocation(const AllocationProblem& problem, const GeneticOptions& options = {});

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/genetic_allocation.ipp>
#endif
