#pragma once

#include <vector>

#include <reef/plan/chain.hpp>
#include <reef/plan/partition.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The best partition of a chain into at least two sub-models: of all that keep the variant's rules.
///
/// Sub-models are swapped through the device in turn: the next is loaded while one runs, and all C
/// micro-batches pass one before it leaves.
///
///     time = C tb(S_1) + sum over neighbours (A, B) of max(C tf(A) + of(A), tl(B))
///                                                    + max(C tb(B) + ob(B), tl(A)) + C tf(S_K)
///
/// | cost   | O(n^2 log n): a thousand operators in a tenth of a second; O(n^3) and seconds with stashes or  |
/// |        | three resident sub-models. Where there is none, dozens of searches for what is enough, hundreds at most |
/// | cuts   | the first and the last of Chain::cut count nowhere: nothing is cut there                       |
/// | order  | deterministic                                                                                 |
/// | errors | OptionError for a chain that is none, too long for the variant, or that leaves more ways to   |
/// |        | go on with three resident sub-models than memory is to have                                   |
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III, Algorithm 1. Deviation: exact, by dynamic
/// programming, with both directions, accumulation and what is on the device at once.
///
/// \code
/// // given: const plan::Chain& chain
/// const plan::PartitionOptions options{.memory = 8_GiB, .accumulation = 4};
/// const plan::Partition found = plan::partition_chain(chain, options);
/// if (!found.feasible) throw OptionError("my-program: ", found.why);
/// \endcode
Partition partition_chain(const Chain& chain, const PartitionOptions& options);

/// The best partition with the smallest accumulation that has one. Loads that need not be hidden need
/// none. Errors and cost as partition_chain.
Partition smallest_accumulation(const Chain& chain, PartitionOptions options);

/// What user-given bounds come to under the same rules. Throws OptionError unless they cut the chain.
Partition evaluate_partition(const Chain& chain, std::vector<int> bounds,
                             const PartitionOptions& options);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/partition_chain.ipp>
#endif
