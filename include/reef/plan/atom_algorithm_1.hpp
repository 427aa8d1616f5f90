#pragma once

#include <cstdint>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/chain.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Counts of a run of ATOM's Algorithm 1 as it is printed.
struct AtomAlgorithm1 {
  std::uint64_t calls = 0;           ///< the calls of its recursive function
  std::uint64_t inserted = 0;        ///< the partitions that it kept
  std::uint64_t inserted_empty = 0;  ///< the kept partitions of two sub-models, which are kept as empty lists
};

/// Searches as Algorithm 1 is printed, for one micro-batch, and counts calls and partitions: to show its cost and its
/// losses. To get partitions, use partition_chain with Variant::paper: the same search, corrected.
///
/// | literally | every split, longest sub-model first; each fits alone, workspaces added up; each forward  |
/// |           | hides the next load; the backward and accumulation are left out. Its two ranges that are  |
/// |           | off by one, of which one never ends, are not                                              |
/// | cost      | exponential; OptionError beyond `most_calls`                                              |
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, Algorithm 1.
///
/// \code
/// // given: const plan::Chain& chain
/// const std::uint64_t calls = plan::atom_algorithm_1(chain, 64_MiB).calls;
/// \endcode
AtomAlgorithm1 atom_algorithm_1(const Chain& chain, Bytes memory,
                                std::uint64_t most_calls = 100'000'000);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/atom_algorithm_1.ipp>
#endif
