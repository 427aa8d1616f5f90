#pragma once

#include <vector>

#include <reef/plan/chain.hpp>
#include <reef/plan/partition.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Returns the best partition of a chain into at least two sub-models, of all that keep the variant's rules.
///
/// Sub-models are swapped through the device in turn: the next is loaded while one runs, and all C
/// micro-batches pass one before it leaves.
///
///     time = C tb(S_1) + sum over neighbours (A, B) of max(C tf(A) + of(A), tl(B))
///                                                    + max(C tb(B) + ob(B), tl(A)) + C tf(S_K)
///
/// | cost   | O(n^2 log n): a thousand operators in a tenth of a second; O(n^3) and seconds with stashes or  |
/// |        | three resident sub-models. If there is no partition, dozens to hundreds of searches for enough |
/// | cuts   | the first and the last of Chain::cut count nowhere: nothing is cut there                       |
/// | order  | deterministic                                                                                  |
/// | errors | OptionError for a chain that is invalid, too long for the variant, or whose states with three  |
/// |        | resident sub-models take more memory than the search may                                       |
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III, Algorithm 1. Deviation: exact, by dynamic
/// programming, with both directions, accumulation and all that is on the device at once.
///
/// \code
/// // given: const plan::Chain& chain
/// const plan::PartitionOptions options{.memory = 8_GiB, .accumulation = 4};
/// const plan::Partition found = plan::partition_chain(chain, options);
/// if (!found.feasible) throw OptionError("my-program: ", found.why);
/// \endcode
Partition partition_chain(const Chain& chain, const PartitionOptions& options);

/// Returns the best partition with the smallest accumulation that has one. Where loads need not be hidden, that is 1.
/// Errors and cost are those of partition_chain.
Partition smallest_accumulation(const Chain& chain, PartitionOptions options);

/// Evaluates user-given bounds under the rules of partition_chain. Throws OptionError unless they cut the chain.
Partition evaluate_partition(const Chain& chain, std::vector<int> bounds,
                             const PartitionOptions& options);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/partition_chain.ipp>
#endif
