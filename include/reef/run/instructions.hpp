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
/// What a pipeline writes: micro-batches, and their forwards, recomputations, backwards and folds.

namespace reef {
inline namespace v0 {
namespace run {

/// The storages of those tensors, or uses, as values.
std::vector<Value> values_of(const std::vector<StorageId>& storages,
                             const std::vector<int>& ids, int version = 0);

/// The elements of bucket b that a storage of `element` bytes each holds: all, or this rank's shard.
std::pair<std::int64_t, std::int64_t> elements_in(const StepBuilder& builder,
                                                  std::size_t b, StorageId storage,
                                                  Bytes element);

/// This rank fills micro-batches itself: it runs a segment that reads an input of the model, or the loss,
/// which it weighs; or it updates within a step, by means of its own.
bool reads_batches(const StepBuilder& builder);

namespace detail {

/// Storages of a micro-batch for what comes in: inputs in one region, the loss's place and its weight.
struct BatchStorages {
  StorageId losses = no_storage;        ///< of all micro-batches of the phase
  StorageId loss_weights = no_storage;
};

}  // namespace detail

/// Adds the storages of this rank's micro-batches of a phase, for the segments of its stage, and where
/// it reads batches (`reads_batches`) the instruction that fills each micro-batch's inputs and loss
/// weight: `Batch(j)`. Returns the first j.
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

/// Appends `Forward(segment, j)`; in an evaluation it keeps nothing for a backward, nor in a segment that
/// is recomputed. ForwardView says what it reads and writes.
void add_forward(StepBuilder& builder, int s, int j);

/// Appends `Recompute(segment, j)`: what its backward reads, computed as by its forward. What it passes by goes to
/// MicroBatch::recomputed.
void add_recompute(StepBuilder& builder, int s, int j);

namespace detail {

/// Of a segment's gradients that are to be rounded, a micro-batch's own: made by the first who asks.
const std::vector<Value>& unrounded(StepBuilder& builder, int s, int j,
                                    const std::vector<Value>& gradients);

/// Appends a backward, or a half of one. The first micro-batch of a fold overwrites the gradients, unless the phase
/// continues; the others add to them. BackwardView says what it reads, writes and accumulates into.
///
/// Where the plan rounds gradients, it always writes, to storages of the micro-batch's own, and behind what ends it
/// `AddGradients(segment, j)` reads those, and writes or accumulates gradients_of(segment).
void add_backward(StepBuilder& builder, std::string_view kind, int s, int j, int fold,
                  bool first_of_fold);

}  // namespace detail

/// Appends `Backward(segment, j)`, behind a `Recompute` where the plan says so. `first_of_fold`: it begins the sums of
/// gradients, which the others of the fold add to.
inline void add_backward(StepBuilder& builder, int s, int j, int fold, bool first_of_fold) {
  if (!keeps(builder, s)) add_recompute(builder, s, j);
  detail::add_backward(builder, kinds::backward, s, j, fold, first_of_fold);
}

namespace detail {

void require_halves(const StepBuilder& builder, int s);

}  // namespace detail

/// Appends `BackwardInput(segment, j)`, behind a `Recompute` where the plan says so: the half that others wait for.
/// Throws ScheduleError unless the plan has halves (StepPlan::split_backwards).
void add_input_backward(StepBuilder& builder, int s, int j, int fold, bool first_of_fold);

/// Appends `BackwardWeight(segment, j)`, any time behind its BackwardInput; of a segment in ascending order of j.
inline void add_weight_backward(StepBuilder& builder, int s, int j, int fold, bool first_of_fold) {
  detail::require_halves(builder, s);
  detail::add_backward(builder, kinds::backward_weight, s, j, fold, first_of_fold);
}

/// Appends what ends a rank's fold: the gradients of parameters that other stages use come in, or go to those that
/// own them; the tied uses of parameters are added to the first, in
/// the order of use (`FoldUses`), and where the process stands for several ranks, this one's
/// gradient to the ranks' before (`FoldRank`). Nothing where each fold keeps its gradients: they are
/// folded when they are handed over.
void add_folds(StepBuilder& builder, int fold);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/instructions.ipp>
#endif
