#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <reef/core/tensor_view.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/bindings.hpp>
#include <reef/graph/operator.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/rank_context.hpp>

namespace reef {
inline namespace v0 {
namespace run::detail {

/// Runs code of a micro-batch's operators: what one of them throws is told with the rank and the micro-batch.
template <class F>
void run_operators(const AnyRankContext& context, int micro_batch, const F& function) {
  try {
    function();
  } catch (const graph::OperatorError& error) {
    throw graph::OperatorError(error.cause(), "reef::run: on rank ", context.rank(), ", micro-batch ", micro_batch,
                               ", samples from ", context.first_sample(micro_batch), ": ", error.what());
  }
}

/// The loss weight of a micro-batch, whose inputs the source fills: what it throws is told with the rank, the
/// micro-batch and, of an input that it takes for another type, the input's name.
double filled(const AnyRankContext& context, int micro_batch, std::span<const AnyView> inputs);

/// The addresses of an instruction's operands, which it finds through the instruction's view: so a pass that gives an
/// operand another storage changes where the code works.
class Operands {
public:
  static graph::SegmentBindings of_forward(const AnyRankContext& context, const Instruction& forward);

  static graph::SegmentBindings of_recompute(const AnyRankContext& context,
                                             const Instruction& recompute);

  static graph::SegmentBindings of_backward(const AnyRankContext& context, const Instruction& backward,
                                            const BackwardView<const Instruction>& view);

  /// Of the gradients of a segment's uses, which an instruction has as gradients_of(segment) lists them.
  static std::vector<void*> of_gradients(const AnyRankContext& context, const Instruction& instruction,
                                         const PartOf<const Instruction>& gradients);

private:
  using Operand = PartOf<const Instruction>;

  Operands(const AnyRankContext& context, const Instruction& instruction)
      : context_(context),
        instruction_(instruction),
        s_(instruction.index),
        bindings_(*context.plan().dag) {}

  /// Of a Forward or a Recompute.
  template <class View>
  graph::SegmentBindings bound(const View& view, const std::vector<int>& inputs,
                               const std::vector<int>& outputs, Bytes workspace_bytes) {
    bind_weights(view.weights);
    bind(bindings_.tensors, inputs, view.inputs);
    bind(bindings_.tensors, outputs, view.outputs);
    if (!view.saved.empty()) bindings_.saved = at(view.saved, 0, segment().saved_bytes);
    bindings_.workspace = at(view.workspace, 0, workspace_bytes);
    return std::move(bindings_);
  }

  [[nodiscard]] const graph::Segment& segment() const {
    return context_.plan().segments[static_cast<std::size_t>(s_)];
  }

  /// The address of the k-th operand of a part, which has so many bytes.
  void* at(const Operand& part, std::size_t k, Bytes bytes) const;

  [[nodiscard]] Bytes bytes_of(int tensor) const {
    return context_.plan().dag->tensor_at(tensor).spec.bytes();
  }

  void bind(std::vector<void*>& table, const std::vector<int>& ids, const Operand& part) const;

  /// Where a parameter lies in the memory of its bucket, of elements of so many bytes.
  [[nodiscard]] void* in_bucket(void* bucket, std::size_t b, std::size_t parameter, Bytes element) const;

  /// As StepBuilder::weights_of lists them.
  void bind_weights(const Operand& weights);

  /// As StepBuilder::gradients_of lists them.
  void bind_uses(const Operand& gradients);

  const AnyRankContext& context_;
  const Instruction& instruction_;
  int s_;
  graph::SegmentBindings bindings_;
};

}  // namespace run::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/detail/segment_operands.ipp>
#endif
