#pragma once

#include <vector>

#include <reef/plan/chain.hpp>
#include <reef/plan/partition.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Returns the best partition of a model's operators into at least two sub-models that keeps the rules of
/// options.variant (a published form of ATOM's planner).
///
/// Sub-models S_1 to S_K are swapped through the device in turn: while one runs forward (tf) or backward (tb) for
/// all C micro-batches, the next is loaded (tl); then the first is copied back to the host (of, ob).
///
///     time = C tb(S_1) + sum over neighbours (A, B) of max(C tf(A) + of(A), tl(B))
///                                                    + max(C tb(B) + ob(B), tl(A)) + C tf(S_K)
///
/// | cost   | O(n^2 log n): a thousand operators in a tenth of a second; O(n^3) and seconds with stashes or     |
/// |        | three resident sub-models. If no partition is feasible, up to hundreds of searches for the reason |
/// | cuts   | the first and the last entry of OperatorChain::cut do not count: the chain is not cut there       |
/// | order  | the result is deterministic                                                                       |
/// | errors | OptionError for a chain that is invalid or too long for the variant, or for which the search      |
/// |        | with three resident sub-models would need too much memory                                         |
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III, Algorithm 1. Deviation: an exact dynamic program, which
/// counts both directions, accumulation, and everything that is on the device at once.
///
/// \code
/// // given: const plan::OperatorChain& chain
/// const plan::PartitionOptions options{.memory = 8_GiB, .accumulation = 4};
/// const plan::Partition found = plan::partition_chain(chain, options);
/// if (!found.feasible) throw OptionError("my-program: ", found.why);
/// \endcode
Partition partition_chain(const OperatorChain& chain, const PartitionOptions& options);

/// Returns the best partition into sub-models for the smallest number of accumulated micro-batches with which one is
/// feasible; with Variant::soft, whose loads need not be hidden, that number is 1. Has the errors and the cost of
/// partition_chain().
Partition smallest_accumulation(const OperatorChain& chain, PartitionOptions options);

/// Evaluates the partition of a model with given bounds of sub-models by the rules of partition_chain(). Throws
/// OptionError as validate_bounds().
Partition evaluate_partition(const OperatorChain& chain, std::vector<int> bounds,
                             const PartitionOptions& options);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/partition_chain.ipp>
#endif
