#pragma once

#include <cstdint>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/chain.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The counts of a run of ATOM's Algorithm 1, as the paper prints it.
struct AtomAlgorithm1 {
  std::uint64_t calls = 0;     ///< number of calls of the algorithm's recursive function
  std::uint64_t inserted = 0;  ///< number of partitions that the algorithm stored
  /// Number of stored partitions of two sub-models, which the algorithm stores as empty lists.
  std::uint64_t inserted_empty = 0;
};

/// Runs Algorithm 1 of ATOM as it is printed, for one micro-batch, and counts its calls and partitions: the counts show
/// the cost and the gaps of the algorithm. To get partitions, call partition_chain() with Variant::paper, the corrected
/// search.
///
/// | literally | tries every split, longest sub-model first: each sub-model must fit alone, with all its   |
/// |           | workspaces added up, and each forward must hide the next load; no backward, no            |
/// |           | accumulation. Two ranges that are off by one in print, one of them endless, are corrected |
/// | cost      | exponential; OptionError beyond `max_calls`                                               |
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, Algorithm 1.
///
/// \code
/// // given: const plan::OperatorChain& chain
/// const std::uint64_t calls = plan::atom_algorithm_1(chain, 64_MiB).calls;
/// \endcode
AtomAlgorithm1 atom_algorithm_1(const OperatorChain& chain, Bytes memory,
                                std::uint64_t max_calls = 100'000'000);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/atom_algorithm_1.ipp>
#endif
