#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/run/kinds.hpp>
#include <reef/run/operands.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/transfers.hpp>

/// \file
/// Views of instructions, one for each kind that runs the model: a view names the operands that the instruction reads,
/// writes and accumulates into. Code that writes the kind (run/instructions.hpp), rewrites it, or runs it goes through
/// the view, which alone states the order of operands and how many of each there are.
///
/// \code
/// // given: run::StepBuilder& builder
/// for (schedule::Instruction& i : builder.program.round) {
///   if (i.kind != run::kinds::forward) continue;
///   const run::ForwardView forward(builder, i);  // with Lists::added: makes room for its operands
///   if (forward.saved.empty()) continue;         // an evaluation, or it is recomputed
///   const Bytes bytes = builder.program.storages[forward.saved.front().storage].bytes;
///   forward.saved.front() = {builder.program.add_storage("mine", bytes, run::Place::device), 0};
/// }
/// \endcode

namespace reef {
inline namespace v0 {
namespace run {

/// Returns true if the forward of segment s keeps the tensors that its backward reads.
inline bool keeps(const StepBuilder& builder, int s) {
  return builder.trains() && !builder.plan.recomputes_segment(static_cast<std::size_t>(s));
}

namespace detail {

template <class Instr>
const graph::Segment& segment_of(const StepBuilder& builder, const Instr& instruction) {
  return builder.plan.segments[static_cast<std::size_t>(instruction.index)];
}

}  // namespace detail

/// The operands of `Batch(j)`, the instruction that fills the inputs of micro-batch j.
///
///     writes   inputs of the model, loss weight
template <class Instr>
struct BatchView {
  PartOf<Instr> inputs, loss_weight;

  BatchView(const StepBuilder& builder, Instr& batch, Lists lists = Lists::found) {
    Layout layout(batch, lists);
    inputs = layout.writes(builder.plan.dag->inputs.size());
    loss_weight = layout.writes(1);
  }
};

/// The way in which the instruction `Number(j)`, which has no operands, gets the job-wide number of micro-batch j: its
/// Instruction::mode.
///
/// | claims  | it asks for a number itself                                 |
/// | follows | Batch(j) has asked for the number, and Number(j) runs after |
enum class NumberMode : std::uint8_t { claims, follows };

inline bool claims_number(const Instruction& number) {
  return number.mode == static_cast<std::uint8_t>(NumberMode::claims);
}
inline void set_claims_number(Instruction& number, bool claims) {
  number.mode = static_cast<std::uint8_t>(claims ? NumberMode::claims : NumberMode::follows);
}

/// The operands of `Forward(segment, j)`, the instruction for the forward of a segment with micro-batch j.
///
///     reads    weights_of(segment), boundary inputs
///     writes   boundary outputs, saved (if it keeps any), workspace
template <class Instr>
struct ForwardView {
  PartOf<Instr> weights, inputs, outputs, saved, workspace;

  ForwardView(const StepBuilder& builder, Instr& forward, Lists lists = Lists::found);
};

/// The operands of `Recompute(segment, j)`, the instruction that computes the tensors for the backward of a segment
/// again.
///
///     reads    weights_of(segment), those boundary inputs that it needs
///     writes   boundary outputs that it computes on the way, saved, workspace
template <class Instr>
struct RecomputeView {
  PartOf<Instr> weights, inputs, outputs, saved, workspace;

  RecomputeView(const StepBuilder& builder, Instr& recompute, Lists lists = Lists::found);
};

/// Returns the part of a backward (inputs, weights or both) that instructions of this kind run; `none` for kinds that
/// are no backward.
inline graph::BackwardPart backward_part(std::string_view kind) {
  if (kind == kinds::backward) return graph::BackwardPart::all;
  if (kind == kinds::backward_input) return graph::BackwardPart::input;
  return kind == kinds::backward_weight ? graph::BackwardPart::weight : graph::BackwardPart::none;
}

/// The operands of `Backward(segment, j)`, the instruction for the backward of a segment with micro-batch j, or of its
/// halves `BackwardInput` and `BackwardWeight`. Set its SumMode first.
///
///     reads          weights_of(segment), boundary tensors that it reads, saved, output gradients
///     writes         input gradients that it is the first to write, workspace
///     accumulates    input gradients to which it adds
///     then           gradients_of(segment), written or accumulated into by its SumMode
///
/// | BackwardInput  | writes `pending`, last; has `gradients` only if an operator with parameters cannot be split   |
/// | BackwardWeight | reads `pending`, then the output gradients that it needs; has no input gradients; accumulates |
/// |                | into its `gradients` if BackwardInput has some, too                                           |
///
/// If the plan rounds gradients, `gradients` are the micro-batch's own, which AddGradients adds to the sum over
/// micro-batches.
template <class Instr>
struct BackwardView {
  PartOf<Instr> weights, tensors, saved, output_gradients;
  PartOf<Instr> written_input_gradients, added_input_gradients, workspace, pending, gradients;

  BackwardView(const StepBuilder& builder, Instr& backward, Lists lists = Lists::found);

  [[nodiscard]] graph::BackwardPart part() const { return part_; }
  [[nodiscard]] const graph::Segment& segment() const { return *segment_; }

  /// Returns the ids of the tensors in `tensors`, which cross the segment's bounds; output_gradient_ids() returns those
  /// of `output_gradients`.
  [[nodiscard]] const std::vector<int>& tensor_ids() const {
    switch (part_) {
      case graph::BackwardPart::input: return segment_->input_half_reads;
      case graph::BackwardPart::weight: return segment_->weight_half_reads;
      default: return segment_->backward_reads;
    }
  }
  [[nodiscard]] const std::vector<int>& output_gradient_ids() const {
    return part_ == graph::BackwardPart::weight ? segment_->weight_half_gradients
                                                : segment_->output_gradients;
  }
  [[nodiscard]] Bytes workspace_bytes() const {
    return part_ == graph::BackwardPart::weight ? segment_->weight_half_workspace_bytes
                                                : segment_->backward_workspace_bytes;
  }

  /// Returns the gradient of the tensor Segment::input_gradients[k], which is written or accumulated into.
  [[nodiscard]] PartOf<Instr> input_gradient(std::size_t k) const {
    const bool adds = segment_->input_gradient_accumulates[k];
    return (adds ? added_input_gradients : written_input_gradients).one(count_before(k, adds));
  }

private:
  [[nodiscard]] std::size_t count_before(std::size_t k, bool adds) const {
    const auto begin = segment_->input_gradient_accumulates.begin();
    return static_cast<std::size_t>(
        std::count(begin, begin + static_cast<std::ptrdiff_t>(k), adds));
  }

  graph::BackwardPart part_;
  const graph::Segment* segment_;
};

/// The operands of `AddGradients(segment, j)`, the instruction that rounds the gradients of a Backward, and writes or
/// adds them to the sum over micro-batches. Set its SumMode first.
///
///     reads                 the gradients that the Backward wrote, in the order of gradients_of(segment)
///     writes, accumulates   gradients_of(segment), by its SumMode
template <class Instr>
struct AddGradientsView {
  PartOf<Instr> from, gradients;

  AddGradientsView(const StepBuilder& builder, Instr& add, Lists lists = Lists::found) {
    const std::size_t count = builder.gradients_made_by(add.index);
    Layout layout(add, lists);
    from = layout.reads(count);
    gradients = layout.sums(count);
  }
};

/// The operands of `FoldUses(bucket)`, the instruction that adds the gradients of further uses of parameters to those
/// of the first.
///
///     reads         tied_uses(bucket)
///     accumulates   the bucket's gradient
template <class Instr>
struct FoldUsesView {
  PartOf<Instr> uses, gradient;

  FoldUsesView(const StepBuilder& builder, Instr& fold, Lists lists = Lists::found) {
    Layout layout(fold, lists);
    uses = layout.reads(builder.tied_uses(static_cast<std::size_t>(fold.index)).size());
    gradient = layout.accumulates(1);
  }
};

/// The operands of `FoldRank(bucket)`, the instruction that adds an emulated rank's gradient to those of the ranks
/// before. Set its SumMode first.
///
///     reads                 the rank's gradient
///     writes, accumulates   the sum, by its SumMode
template <class Instr>
struct FoldRankView {
  PartOf<Instr> gradient, sum;

  explicit FoldRankView(Instr& fold, Lists lists = Lists::found) {
    Layout layout(fold, lists);
    gradient = layout.reads(1);
    sum = layout.sums(1);
  }
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/views.ipp>
#endif
