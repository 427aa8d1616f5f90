#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/tied.hpp>
#include <reef/run/views.hpp>

/// \file
/// Functions that write a pipeline's instructions into a rank's program: micro-batches, and their forwards,
/// recomputations, backwards and gradient sums.

namespace reef {
inline namespace v0 {
namespace run {

/// Returns the memory blocks (storages) of the tensors, or of the uses of parameters, with these ids, each as a value
/// of the given version.
std::vector<Value> values_of(const std::vector<StorageId>& storages,
                             const std::vector<int>& ids, int version = 0);

/// Returns the range of elements of bucket b (parameters of one segment) that a memory block (storage) with `element`
/// bytes for each element contains: all, or this rank's shard.
std::pair<std::int64_t, std::int64_t> elements_in(const StepBuilder& builder,
                                                  std::size_t b, StorageId storage,
                                                  Bytes element);

/// Returns true if this rank itself fills micro-batches from the source: a segment of its stage reads an input of the
/// model, or its stage computes the loss and weighs it, or it updates within a step and needs the loss weights.
bool reads_batches(const StepBuilder& builder);

namespace detail {

/// The memory blocks (storages) that hold the losses and loss weights of all micro-batches of an accumulation phase.
struct BatchStorages {
  StorageId losses = no_storage;        ///< the losses of all micro-batches
  StorageId loss_weights = no_storage;
};

}  // namespace detail

/// Adds the storages of this rank's micro-batches of an accumulation phase, for the segments of its stage, and if it
/// reads batches (`reads_batches`) the instruction `Batch(j)` that fills the inputs and the loss weight of each
/// micro-batch j. Returns the first j.
///
/// Called by every pipeline policy, before its own instructions.
///
/// \code
/// // given: run::StepBuilder& builder
/// const int first = run::add_micro_batches(builder);
/// for (const int s : builder.segments()) run::add_forward(builder, s, first);
/// for (auto s = builder.segments().rbegin(); s != builder.segments().rend(); ++s) {
///   run::add_backward(builder, *s, first, 0, true);
/// }
/// run::add_folds(builder, 0);
/// \endcode
int add_micro_batches(StepBuilder& builder);

/// Appends the forward of segment s (consecutive operators) for micro-batch j, whose operands ForwardView states. In an
/// evaluation, and in a segment that is recomputed, it keeps nothing for a backward.
void add_forward(StepBuilder& builder, int s, int j);

/// Appends the recomputation of segment s for micro-batch j: it computes the tensors that the segment's backward reads,
/// as its forward did. Boundary tensors that it computes on the way are written to MicroBatch::recomputed.
void add_recompute(StepBuilder& builder, int s, int j);

namespace detail {

/// Returns the gradients of segment s from micro-batch j alone, before they are rounded to a narrower type. The first
/// call adds their memory to the program.
const std::vector<Value>& unrounded(StepBuilder& builder, int s, int j,
                                    const std::vector<Value>& gradients);

/// Appends a backward of segment s for micro-batch j, or a half of one. The first micro-batch of a sum (fold)
/// overwrites the gradients, unless the phase continues an earlier one; the other micro-batches add to them. `fold`:
/// index among the ranks that this process emulates, 0 if none. BackwardView states the operands.
///
/// If the plan rounds gradients, a backward always writes them to storages of the micro-batch's own; after the last
/// half, `AddGradients(segment, j)` reads these, and writes or accumulates gradients_of(segment).
void add_backward(StepBuilder& builder, std::string_view kind, int s, int j, int fold,
                  bool first_of_fold);

}  // namespace detail

/// Appends the backward of segment s for micro-batch j, after a recomputation if the plan recomputes the segment.
/// `first_of_fold`: true if this backward begins the gradient sums, to which the other micro-batches add; `fold`: index
/// among the ranks that this process emulates, 0 if none.
inline void add_backward(StepBuilder& builder, int s, int j, int fold, bool first_of_fold) {
  if (!keeps(builder, s)) add_recompute(builder, s, j);
  detail::add_backward(builder, kinds::backward, s, j, fold, first_of_fold);
}

namespace detail {

void require_halves(const StepBuilder& builder, int s);

}  // namespace detail

/// Appends the input half of a backward (gradients of inputs), for which other stages wait, after a recomputation if
/// the plan recomputes the segment. Throws ScheduleError unless the plan splits backwards (StepPlan::split_backwards).
void add_input_backward(StepBuilder& builder, int s, int j, int fold, bool first_of_fold);

/// Appends the weight half of a backward (gradients of parameters). To be called at any time after add_input_backward
/// for the same micro-batch, for each segment in ascending order of j.
inline void add_weight_backward(StepBuilder& builder, int s, int j, int fold, bool first_of_fold) {
  detail::require_halves(builder, s);
  detail::add_backward(builder, kinds::backward_weight, s, j, fold, first_of_fold);
}

/// Appends the instructions that end a rank's gradient sums: gradients of tied parameters go to the stages that own
/// them, or are received; gradients of further uses are added to those of the first use, in the order of use
/// (`FoldUses`); and if the process stands for several ranks, this rank's gradient is added to those of the ranks
/// before it (`FoldRank`). Appends nothing if each sum keeps its gradients, nor in the body of a loop: they are added
/// when the optimizer takes them over.
void add_folds(StepBuilder& builder, int fold);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/instructions.ipp>
#endif
