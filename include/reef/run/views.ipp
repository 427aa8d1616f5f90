#pragma once

#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/run/views.hpp>

namespace reef {
inline namespace v0 {
namespace run {

template <class Instr>
ForwardView<Instr>::ForwardView(const StepBuilder& builder, Instr& forward, Lists lists) {
  const graph::Segment& segment = detail::segment_of(builder, forward);
  Layout layout(forward, lists);
  weights = layout.reads(builder.weights_read_by(forward.index));
  inputs = layout.reads(segment.boundary_inputs.size());
  outputs = layout.writes(segment.boundary_outputs.size());
  saved = layout.writes(keeps(builder, forward.index) ? 1 : 0);
  workspace = layout.writes(1);
  layout.require_end_of_writes();
}

template <class Instr>
RecomputeView<Instr>::RecomputeView(const StepBuilder& builder, Instr& recompute, Lists lists) {
  const graph::Segment& segment = detail::segment_of(builder, recompute);
  Layout layout(recompute, lists);
  weights = layout.reads(builder.weights_read_by(recompute.index));
  inputs = layout.reads(segment.recompute_reads.size());
  outputs = layout.writes(segment.recompute_writes.size());
  saved = layout.writes(1);
  workspace = layout.writes(1);
  layout.require_end_of_writes();
}

template <class Instr>
BackwardView<Instr>::BackwardView(const StepBuilder& builder, Instr& backward, Lists lists)
    : part_(backward_part(backward.kind)),
      segment_(part_ == graph::BackwardPart::all
                   ? &detail::segment_of(builder, backward)
                   : &builder.plan.halves.at(static_cast<std::size_t>(backward.index))) {
  const bool input = part_ == graph::BackwardPart::input;
  const bool weight = part_ == graph::BackwardPart::weight;
  const std::size_t inputs = weight ? 0 : segment_->input_gradients.size();
  const std::size_t adds = count_before(inputs, true);
  Layout layout(backward, lists);
  weights = layout.reads(builder.weights_read_by(backward.index));
  tensors = layout.reads(tensor_ids().size());
  saved = layout.reads(1);
  if (weight) pending = layout.reads(1);
  output_gradients = layout.reads(output_gradient_ids().size());
  written_input_gradients = layout.writes(inputs - adds);
  added_input_gradients = layout.accumulates(adds);
  workspace = layout.writes(1);
  if (input) pending = layout.writes(1);
  const std::size_t sums = builder.gradients_made_by(backward.index);
  const bool input_half_sums = segment_->input_half_has_parameters;
  if (weight && input_half_sums) {
    gradients = layout.accumulates(sums);
  } else {
    gradients = layout.sums(input && !input_half_sums ? 0 : sums);
  }
  layout.require_end_of_writes();
  layout.require_end_of_accumulates();
}

#ifdef REEF_COMPILED  // all that there are
template ForwardView<Instruction>::ForwardView(const StepBuilder&, Instruction&, Lists);
template ForwardView<const Instruction>::ForwardView(const StepBuilder&, const Instruction&, Lists);
template RecomputeView<Instruction>::RecomputeView(const StepBuilder&, Instruction&, Lists);
template RecomputeView<const Instruction>::RecomputeView(const StepBuilder&, const Instruction&, Lists);
template BackwardView<Instruction>::BackwardView(const StepBuilder&, Instruction&, Lists);
template BackwardView<const Instruction>::BackwardView(const StepBuilder&, const Instruction&, Lists);
#endif

}  // namespace run
}  // namespace v0
}  // namespace reef
