#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include <reef/comm/error.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/detail/segment_operands.hpp>

namespace reef {
inline namespace v0 {
namespace run::detail {

REEF_INLINE double filled(const AnyRankContext& context, int micro_batch, std::span<const AnyView> inputs) {
  const auto tell = [&](const auto&... what) {
    throw SourceError(std::current_exception(), "reef::run: the source of rank ", context.rank(),
                      " has failed at micro-batch ", micro_batch, ", samples from ",
                      context.first_sample(micro_batch), ": ", what...);
  };
  try {
    return context.source(context.first_sample(micro_batch), inputs);
  } catch (const comm::MpiError&) {
    throw;  // of ranks, not of the source
  } catch (const SourceError&) {
    throw;  // it says where already
  } catch (const ElementError& error) {
    const auto one = std::find_if(inputs.begin(), inputs.end(), [&](const AnyView& input) {
      return input.data() == error.data();
    });
    if (one == inputs.end()) tell(error.what());
    const graph::Dag& dag = *context.plan().dag;
    tell("input '", dag.tensor_at(dag.inputs[static_cast<std::size_t>(one - inputs.begin())]).name,
         "': ", error.what());
  } catch (const std::exception& error) {
    tell(error.what());
  } catch (...) {
    tell("it threw what is no std::exception");
  }
  return 0;
}

REEF_INLINE graph::SegmentBindings Operands::of_forward(const AnyRankContext& context, const Instruction& forward) {
  Operands operands(context, forward);
  const graph::Segment& segment = operands.segment();
  const ForwardView view(context.builder, forward);
  return operands.bound(view, segment.boundary_inputs, segment.boundary_outputs,
                        view.saved.empty() ? segment.inference_workspace_bytes
                                           : segment.forward_workspace_bytes);
}

REEF_INLINE graph::SegmentBindings Operands::of_recompute(const AnyRankContext& context,
                                           const Instruction& recompute) {
  Operands operands(context, recompute);
  const graph::Segment& segment = operands.segment();
  return operands.bound(RecomputeView(context.builder, recompute), segment.recompute_reads,
                        segment.recompute_writes, segment.forward_workspace_bytes);
}

REEF_INLINE graph::SegmentBindings Operands::of_backward(const AnyRankContext& context, const Instruction& backward,
                                          const BackwardView<const Instruction>& view) {
  Operands operands(context, backward);
  graph::SegmentBindings& bindings = operands.bindings_;
  const graph::Segment& segment = view.segment();
  operands.bind_weights(view.weights);
  operands.bind(bindings.tensors, view.tensor_ids(), view.tensors);
  bindings.saved = operands.at(view.saved, 0, segment.saved_bytes);
  if (!view.pending.empty()) {
    bindings.pending = operands.at(view.pending, 0, segment.pending_bytes);
  }
  operands.bind(bindings.gradients, view.output_gradient_ids(), view.output_gradients);
  const bool weight = view.part() == graph::BackwardPart::weight;
  for (std::size_t k = 0; !weight && k < segment.input_gradients.size(); ++k) {
    const int id = segment.input_gradients[k];
    bindings.gradient(id) = operands.at(view.input_gradient(k), 0, operands.bytes_of(id));
  }
  bindings.workspace = operands.at(view.workspace, 0, view.workspace_bytes());
  if (!view.gradients.empty()) operands.bind_uses(view.gradients);
  return std::move(bindings);
}

REEF_INLINE std::vector<void*> Operands::of_gradients(const AnyRankContext& context, const Instruction& instruction,
                                       const PartOf<const Instruction>& gradients) {
  Operands operands(context, instruction);
  operands.bind_uses(gradients);
  return std::move(operands.bindings_.uses);
}

REEF_INLINE void* Operands::at(const Operand& part, std::size_t k, Bytes bytes) const {
  const Value value = part[k];
  const schedule::Storage& storage = context_.storage(value);
  if (storage.bytes != bytes) {
    const char* const verb = part.list() == &instruction_.reads    ? "reads"
                             : part.list() == &instruction_.writes ? "writes"
                                                                   : "accumulates into";
    throw ScheduleError("reef::run: ", instruction_.text(), " ", verb, " '", storage.name,
                        "', its operand ", part.index_of(k), " there, which has ", storage.bytes,
                        " bytes and should have ", bytes, operands_remedy);
  }
  return context_.memory.at(value.storage);
}

REEF_INLINE void Operands::bind(std::vector<void*>& table, const std::vector<int>& ids, const Operand& part) const {
  for (std::size_t k = 0; k < ids.size(); ++k) {
    table[static_cast<std::size_t>(ids[k])] = at(part, k, bytes_of(ids[k]));
  }
}

REEF_INLINE void* Operands::in_bucket(void* bucket, std::size_t b, std::size_t parameter, Bytes element) const {
  const StepPlan& plan = context_.plan();
  const auto begin = static_cast<Bytes>(plan.layout.parameters[parameter] - plan.buckets[b].begin);
  return static_cast<std::byte*>(bucket) + begin * element;
}

REEF_INLINE void Operands::bind_weights(const Operand& weights) {
  const StepPlan& plan = context_.plan();
  std::size_t next = 0;
  for (const std::size_t b : context_.builder.buckets_of(segment())) {
    const auto elements = static_cast<Bytes>(plan.buckets[b].size());
    void* const bucket = at(weights, next++, elements * plan.element_bytes());
    for (const int id : segment().parameters) {
      const auto p = static_cast<std::size_t>(id);
      if (plan.bucket_of_parameter[p] != static_cast<int>(b)) continue;
      bindings_.parameters[p] = in_bucket(bucket, b, p, plan.element_bytes());
    }
  }
  for (const int id : context_.builder.tied_of(segment())) {
    const auto p = static_cast<std::size_t>(id);
    bindings_.parameters[p] = at(weights, next++, plan.dag->parameters[p].spec.bytes());
  }
  for (const int id : context_.builder.frozen_of(segment())) {
    const auto p = static_cast<std::size_t>(id);
    bindings_.parameters[p] = at(weights, next++, plan.dag->parameters[p].spec.bytes());
  }
}

REEF_INLINE void Operands::bind_uses(const Operand& gradients) {
  const StepPlan& plan = context_.plan();
  const int own = plan.bucket_of_segment[static_cast<std::size_t>(s_)];
  const auto bytes = [&](std::int64_t elements) { return static_cast<Bytes>(elements) * plan.sum_bytes(); };
  std::size_t next = 0;
  void* const bucket =
      own >= 0
          ? at(gradients, next++, bytes(plan.buckets[static_cast<std::size_t>(own)].size()))
          : nullptr;
  for (const int use : segment().uses) {
    const auto p = static_cast<std::size_t>(plan.dag->use_at(use).parameter);
    const bool further =
        context_.builder.accumulators[0].uses[static_cast<std::size_t>(use)] != no_storage;
    bindings_.use(use) =
        further ? at(gradients, next++, bytes(plan.dag->parameters[p].spec.shape.size()))
                : in_bucket(bucket, static_cast<std::size_t>(own), p, plan.sum_bytes());
  }
}

}  // namespace run::detail
}  // namespace v0
}  // namespace reef
