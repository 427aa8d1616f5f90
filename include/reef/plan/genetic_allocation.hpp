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

/// Options of genetic_allocation(), a genetic search for a placement of stages on devices.
struct GeneticOptions {
  std::uint64_t seed = 0;
  int population = 100;
  int trials = 4900;
  GeneticGain gain = GeneticGain::published;
  /// A function called at every evaluation, with the number of evaluations and the least cost so far, in seconds. The
  /// search stops if it returns false.
  std::function<bool(int, Seconds)> progress;
};

/// Runs the hybrid genetic search that DT-FM publishes, as a baseline for allocate(). Its result is never marked
/// `optimal`; `effort` is the number of evaluations.
///
/// The search starts from a population of random partitions. A trial copies one parent, gives five random devices the
/// groups that they have in the other parent, repairs the sizes of groups, moves devices along cycles of groups
/// (detail/cyclic_moves.hpp), and computes the exact cost of this child. If the child costs no more than the other
/// parent, it replaces the worse of the two.
///
/// | cost   | population + trials evaluations, each of stages^2 / 2 matchings and a path             |
/// | errors | OptionError unless stages * pipelines = devices and `memories` is empty; of allocate() |
///
/// Source: Yuan et al., arXiv 2206.01288, section 3.4; details that its text leaves open follow its published
/// program. Deviations: random numbers depend on `seed` alone; where the program reads one direction of a link,
/// this function takes the mean of both; the cost is computed by our own code, with the same values.
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
