#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/graph/graph.hpp>
#include <reef/run/fold.hpp>
#include <reef/run/handlers.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/tied_code.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

/// Runs code of a micro-batch's operators: what one of them throws is told with the rank and the micro-batch.
template <class Context, class F>
void run_operators(const Context& context, int micro_batch, const F& function) {
  try {
    function();
  } catch (const graph::OperatorError& error) {
    throw graph::OperatorError(error.cause(), "reef::run: on rank ", context.rank(), ", micro-batch ", micro_batch,
                               ", samples from ", context.first_sample(micro_batch), ": ", error.what());
  }
}

/// The loss weight of a micro-batch, whose inputs the source fills: what it throws is told with the rank, the micro-batch
/// and, of an input that it takes for another type, the input's name.
template <class Context>
double filled(const Context& context, int micro_batch, std::span<const AnyView> inputs) {
  const auto tell = [&](const auto&... what) {
    throw SourceError(std::current_exception(), "reef::run: the source of rank ", context.rank(),
                      " has failed at micro-batch ", micro_batch, ", samples from ",
                      context.first_sample(micro_batch), ": ", what...);
  };
  try {
    return context.source(context.first_sample(micro_batch), inputs);
  } catch (const comm::MpiError&) {
    throw;  // of ranks, not of the source
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

/// The addresses of an instruction's operands, which it finds through the instruction's view: so a pass that gives an
/// operand another storage changes where the code works.
template <device::device Device, real T, real Gradient>
class Operands {
public:
  using Context = RankContext<Device, T, Gradient>;

  static graph::SegmentBindings of_forward(const Context& context, const Instruction& forward) {
    Operands operands(context, forward);
    const graph::Segment& segment = operands.segment();
    const ForwardView view(context.builder, forward);
    return operands.bound(view, segment.boundary_inputs, segment.boundary_outputs,
                          view.saved.empty() ? segment.inference_workspace_bytes
                                             : segment.forward_workspace_bytes);
  }

  static graph::SegmentBindings of_recompute(const Context& context,
                                             const Instruction& recompute) {
    Operands operands(context, recompute);
    const graph::Segment& segment = operands.segment();
    return operands.bound(RecomputeView(context.builder, recompute), segment.recompute_reads,
                          segment.recompute_writes, segment.forward_workspace_bytes);
  }

  static graph::SegmentBindings of_backward(const Context& context, const Instruction& backward,
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

  /// Of the gradients of a segment's uses, which an instruction has as gradients_of(segment) lists them.
  static std::vector<void*> of_gradients(const Context& context, const Instruction& instruction,
                                         const PartOf<const Instruction>& gradients) {
    Operands operands(context, instruction);
    operands.bind_uses(gradients);
    return std::move(operands.bindings_.uses);
  }

private:
  using Operand = PartOf<const Instruction>;

  Operands(const Context& context, const Instruction& instruction)
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
  void* at(const Operand& part, std::size_t k, Bytes bytes) const {
    const Value value = part[k];
    const schedule::Storage& storage = context_.storage(value);
    if (storage.bytes != bytes) {
      const char* const verb = part.list() == &instruction_.reads    ? "reads"
                               : part.list() == &instruction_.writes ? "writes"
                                                                     : "accumulates into";
      throw ScheduleError("reef::run: ", instruction_.text(), " ", verb, " '", storage.name,
                          "', its operand ", part.place(k), " there, which has ", storage.bytes,
                          " bytes and should have ", bytes, operands_remedy);
    }
    return context_.memory.at(value.storage);
  }

  [[nodiscard]] Bytes bytes_of(int tensor) const {
    return context_.plan().dag->tensor_at(tensor).spec.bytes();
  }

  void bind(std::vector<void*>& table, const std::vector<int>& ids, const Operand& part) const {
    for (std::size_t k = 0; k < ids.size(); ++k) {
      table[static_cast<std::size_t>(ids[k])] = at(part, k, bytes_of(ids[k]));
    }
  }

  /// Where a parameter lies in the memory of its bucket.
  template <class U>
  void* in_bucket(void* bucket, std::size_t b, std::size_t parameter) const {
    const StepPlan& plan = context_.plan();
    return static_cast<U*>(bucket) + (plan.layout.parameters[parameter] - plan.buckets[b].begin);
  }

  /// As StepBuilder::weights_of lists them.
  void bind_weights(const Operand& weights) {
    const StepPlan& plan = context_.plan();
    std::size_t next = 0;
    for (const std::size_t b : context_.builder.buckets_of(segment())) {
      const auto elements = static_cast<Bytes>(plan.buckets[b].size());
      void* const bucket = at(weights, next++, elements * plan.element_bytes());
      for (const int id : segment().parameters) {
        const auto p = static_cast<std::size_t>(id);
        if (plan.bucket_of_parameter[p] != static_cast<int>(b)) continue;
        bindings_.parameters[p] = in_bucket<T>(bucket, b, p);
      }
    }
    for (const int id : context_.builder.tied_of(segment())) {
      const auto p = static_cast<std::size_t>(id);
      bindings_.parameters[p] = at(weights, next++, plan.dag->parameters[p].spec.bytes());
    }
  }

  /// As StepBuilder::gradients_of lists them.
  void bind_uses(const Operand& gradients) {
    const StepPlan& plan = context_.plan();
    const int own = plan.bucket_of_segment[static_cast<std::size_t>(s_)];
    const auto bytes = [](std::int64_t elements) {
      return static_cast<Bytes>(elements) * sizeof(sum_t<T>);
    };
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
                  : in_bucket<sum_t<T>>(bucket, static_cast<std::size_t>(own), p);
    }
  }

  const Context& context_;
  const Instruction& instruction_;
  int s_;
  graph::SegmentBindings bindings_;
};

/// Adds the code of AddGradients: what a Backward has written becomes, or is added to, gradients of a
/// narrower type. Padding between parameters belongs to nobody, and stays as it is.
template <device::device Device, real T, real Gradient>
void add_rounding_code(Handlers<Device>& handlers,
                       const RankContext<Device, T, Gradient>& context) {
  handlers.on_lane(
      kinds::add_gradients, [&context](const Instruction& add) -> typename Handlers<Device>::Code {
        struct Range {
          Gradient* to;
          const sum_t<T>* from;
          std::int64_t elements;
        };
        const StepPlan& plan = context.plan();
        const auto s = static_cast<std::size_t>(add.index);
        const bool adds = !begins_sum(add);
        const AddGradientsView view(context.builder, add);
        std::vector<Range> ranges;
        std::size_t next = 0;
        if (const int b = plan.bucket_of_segment[s]; b >= 0) {
          for (const auto& [begin, end] : plan.parameters_in(b)) {
            ranges.push_back({context.template at<Gradient>(view.gradients[0]) + begin,
                              context.at(view.from[0]) + begin, end - begin});
          }
          next = 1;
        }
        for (; next < view.gradients.size(); ++next) {
          ranges.push_back({context.template at<Gradient>(view.gradients[next]),
                            context.at(view.from[next]), context.elements(view.from[next])});
        }
        return [ranges = std::move(ranges), adds](typename Device::Lane& lane) {
          for (const Range& r : ranges) {
            fold_into(lane, r.to, r.from, r.elements, adds);
          }
        };
      });
}

}  // namespace detail

/// Adds the code of Batch, Number, Forward, Recompute, Backward, AddGradients, FoldUses, FoldRank, Download, Upload, and of what
/// ties exchange.
template <device::device Device, real T, real Gradient>
void add_step_code(Handlers<Device>& handlers, const RankContext<Device, T, Gradient>& context) {
  using DeviceLane = typename Device::Lane;
  using Code = typename Handlers<Device>::Code;
  using Communication = typename Handlers<Device>::Communication;
  using Sum = sum_t<T>;
  handlers.on_wire(kinds::batch, [&context](const Instruction& batch) -> Communication {
    const graph::Dag& dag = *context.plan().dag;
    const BatchView view(context.builder, batch);
    std::vector<AnyView> inputs;
    for (std::size_t i = 0; i < dag.inputs.size(); ++i) {
      const graph::TensorSpec& spec = dag.tensor_at(dag.inputs[i]).spec;
      inputs.emplace_back(context.memory.at(view.inputs[i].storage), spec.shape, spec.element);
    }
    Sum* const weight = context.at(view.loss_weight.front());
    return context.call("batch", [&context, inputs, weight, j = batch.micro_batch] {
      context.claim(j);
      const double given = detail::filled(context, j, inputs);
      if (!is_finite(given) || given < 0) {
        throw OptionError("reef::run: the source of rank ", context.rank(), " gives micro-batch ",
                          j, " the weight ", given,
                          ".\n  fix: 0 for what does not count, else a finite number above 0.");
      }
      *weight = static_cast<Sum>(given);
    });
  });

  // One that reads something waits for its Batch, which has the number.
  handlers.on_lane(kinds::number, [&context](const Instruction& number) -> Code {
    return [&context, j = number.micro_batch, claims = number.reads.empty()](DeviceLane& /*unused*/) {
      if (claims) context.claim(j);
    };
  });

  const auto forward = [&context](const Instruction& i, graph::SegmentBindings bindings,
                                  graph::Forward what) -> Code {
    const auto& segment = context.plan().segments[static_cast<std::size_t>(i.index)];
    return [&context, &segment, what, j = i.micro_batch,
            bindings = std::move(bindings)](DeviceLane& lane) {
      detail::run_operators(context, j, [&] {
        context.graph.forward(segment, bindings, lane, {context.state.seed, context.first_sample(j), 0, 0}, what);
      });
    };
  };
  handlers.on_lane(kinds::forward, [&context, forward](const Instruction& i) {
    using graph::Forward;
    const Forward trains = keeps(context.builder, i.index) ? Forward::keeps : Forward::drops;
    return forward(i, detail::Operands<Device, T, Gradient>::of_forward(context, i),
                   context.builder.trains() ? trains : Forward::infers);
  });
  handlers.on_lane(kinds::recompute, [&context, forward](const Instruction& i) {
    return forward(i, detail::Operands<Device, T, Gradient>::of_recompute(context, i),
                   graph::Forward::recomputes);
  });

  for (const std::string_view kind :
       {kinds::backward, kinds::backward_input, kinds::backward_weight}) {
    handlers.on_lane(kind, [&context](const Instruction& backward) -> Code {
      using Operands = detail::Operands<Device, T, Gradient>;
      const BackwardView view(context.builder, backward);
      return [&context, &segment = view.segment(), part = view.part(), j = backward.micro_batch,
              accumulate = !begins_sum(backward),
              bindings = Operands::of_backward(context, backward, view)](DeviceLane& lane) {
        detail::run_operators(context, j, [&] {
          context.graph.backward(segment, bindings, lane, {context.state.seed, context.first_sample(j), 0, 0}, accumulate,
                                 part);
        });
      };
    });
  }

  if constexpr (!std::is_same_v<Gradient, Sum>) detail::add_rounding_code(handlers, context);

  handlers.on_lane(kinds::fold_uses, [&context](const Instruction& fold) -> Code {
    const FoldUsesView view(context.builder, fold);
    return context.adds_uses(fold.index, view.gradient.front(), view.uses);
  });

  handlers.on_lane(kinds::fold_rank, [&context](const Instruction& fold) -> Code {
    const bool accumulate = !begins_sum(fold);
    const FoldRankView view(fold);
    const Value target = view.sum.front();
    return [to = context.at(target), from = context.template at<Gradient>(view.gradient.front()),
            n = context.elements(target),
            accumulate](DeviceLane& lane) { detail::fold_into(lane, to, from, n, accumulate); };
  });

  add_tied_code(handlers, context);

  handlers.on_lane(kinds::download,
                   [&context](const Instruction& download) { return context.copies(download); });
  handlers.on_lane(kinds::upload,
                   [&context](const Instruction& upload) { return context.copies(upload); });
}

}  // namespace run
}  // namespace v0
}  // namespace reef
