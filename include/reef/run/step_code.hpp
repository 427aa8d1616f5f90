#pragma once

#include <algorithm>
#include <cstdint>
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

namespace reef::inline v0::run {

namespace detail {

/// Reads an instruction's operands in the order in which `add_forward` and `add_backward` state them, so
/// that a pass that gives an operand another storage changes where the code works.
template <device::device Device, real T, real Gradient>
class Operands {
public:
  Operands(const RankContext<Device, T, Gradient>& context, const Instruction& instruction)
      : context_(context),
        instruction_(instruction),
        s_(instruction.index),
        bindings_(*context.plan().dag) {}

  /// The addresses of a Forward.
  static graph::SegmentBindings of_forward(const RankContext<Device, T, Gradient>& context,
                                           const Instruction& forward) {
    Operands operands(context, forward);
    const graph::Segment& segment = operands.segment();
    const bool kept = keeps(context.builder, forward.index);
    return operands.bound(
        forward, segment.boundary_inputs, segment.boundary_outputs, kept,
        kept ? segment.forward_workspace_bytes : segment.inference_workspace_bytes);
  }

  /// The addresses of a Recompute.
  static graph::SegmentBindings of_recompute(const RankContext<Device, T, Gradient>& context,
                                             const Instruction& recompute) {
    Operands operands(context, recompute);
    const graph::Segment& segment = operands.segment();
    return operands.bound(recompute, segment.recompute_reads, segment.recompute_writes, true,
                          segment.forward_workspace_bytes);
  }

  /// The addresses of a Backward.
  static graph::SegmentBindings of_backward(const RankContext<Device, T, Gradient>& context,
                                            const Instruction& backward) {
    Operands operands(context, backward);
    const graph::Segment& segment = operands.segment();
    Cursor reads{backward.reads, "reads"};
    Cursor writes{backward.writes, "writes"};
    Cursor sums{backward.accumulates, "accumulates into"};
    operands.weights(reads);
    operands.bind(operands.bindings_.tensors, segment.backward_reads, reads);
    operands.bindings_.saved = operands.next(reads, operands.segment().saved_bytes);
    operands.bind(operands.bindings_.gradients, segment.output_gradients, reads);
    for (std::size_t i = 0; i < segment.input_gradients.size(); ++i) {
      operands.bindings_.gradient(segment.input_gradients[i]) =
          operands.next(segment.input_gradient_accumulates[i] ? sums : writes,
                        operands.bytes_of(segment.input_gradients[i]));
    }
    operands.bindings_.workspace = operands.next(writes, segment.backward_workspace_bytes);
    operands.gradients(begins_sum(backward) ? writes : sums);
    operands.require_end(writes);
    operands.require_end(sums);
    return std::move(operands.bindings_);
  }

  /// The addresses of the gradients of a segment's uses, which an instruction reads as `gradients_of`
  /// lists them.
  static std::vector<void*> of_gradients(const RankContext<Device, T, Gradient>& context,
                                         const Instruction& instruction) {
    Operands operands(context, instruction);
    Cursor cursor{instruction.reads, "reads"};
    operands.gradients(cursor);
    return std::move(operands.bindings_.uses);
  }

private:
  struct Cursor {
    const std::vector<Value>& values;
    const char* verb;
    std::size_t at = 0;
  };

  /// The operands of a segment's forward: weights, tensors, saved activations if it keeps them,
  /// workspace.
  graph::SegmentBindings bound(const Instruction& computes, const std::vector<int>& inputs,
                               const std::vector<int>& outputs, bool saves,
                               Bytes workspace_bytes) {
    Cursor reads{computes.reads, "reads"};
    Cursor writes{computes.writes, "writes"};
    weights(reads);
    bind(bindings_.tensors, inputs, reads);
    bind(bindings_.tensors, outputs, writes);
    if (saves) bindings_.saved = next(writes, segment().saved_bytes);
    bindings_.workspace = next(writes, workspace_bytes);
    require_end(writes);
    return std::move(bindings_);
  }

  [[nodiscard]] const graph::Segment& segment() const {
    return context_.plan().segments[static_cast<std::size_t>(s_)];
  }

  /// The address of the next operand, which has so many bytes.
  void* next(Cursor& cursor, Bytes bytes) const {
    if (cursor.at == cursor.values.size()) {
      throw ScheduleError("reef::run: ", instruction_.text(), " ", cursor.verb, " ",
                          cursor.values.size(), " values, and needs more", remedy);
    }
    const Value value = cursor.values[cursor.at++];
    const schedule::Storage& storage = context_.storage(value);
    if (storage.bytes != bytes) {
      throw ScheduleError("reef::run: ", instruction_.text(), " ", cursor.verb, " '", storage.name,
                          "', its operand ", cursor.at - 1, " there, which has ", storage.bytes,
                          " bytes and should have ", bytes, remedy);
    }
    return context_.memory.at(value.storage);
  }

  void require_end(const Cursor& cursor) const {
    if (cursor.at == cursor.values.size()) return;
    throw ScheduleError("reef::run: ", instruction_.text(), " ", cursor.verb, " ",
                        cursor.values.size(), " values, and has a use for ", cursor.at, remedy);
  }

  [[nodiscard]] Bytes bytes_of(int tensor) const {
    return context_.plan().dag->tensor_at(tensor).spec.bytes();
  }

  void bind(std::vector<void*>& table, const std::vector<int>& ids, Cursor& cursor) const {
    for (const int id : ids) table[static_cast<std::size_t>(id)] = next(cursor, bytes_of(id));
  }

  /// Where a parameter lies in the memory of its bucket.
  template <class U>
  void* in_bucket(void* bucket, std::size_t b, std::size_t parameter) const {
    const StepPlan& plan = context_.plan();
    return static_cast<U*>(bucket) + (plan.layout.parameters[parameter] - plan.buckets[b].begin);
  }

  void weights(Cursor& reads) {
    const StepPlan& plan = context_.plan();
    for (const std::size_t b : context_.builder.buckets_of(segment())) {
      const auto elements = static_cast<Bytes>(plan.buckets[b].size());
      void* const bucket = next(reads, elements * plan.element_bytes());
      for (const int id : segment().parameters) {
        const auto p = static_cast<std::size_t>(id);
        if (plan.bucket_of_parameter[p] != static_cast<int>(b)) continue;
        bindings_.parameters[p] = in_bucket<T>(bucket, b, p);
      }
    }
    for (const int id : context_.builder.tied_of(segment())) {
      const auto p = static_cast<std::size_t>(id);
      bindings_.parameters[p] = next(reads, plan.dag->parameters[p].spec.bytes());
    }
  }

  void gradients(Cursor& cursor) {
    const StepPlan& plan = context_.plan();
    const int own = plan.bucket_of_segment[static_cast<std::size_t>(s_)];
    const auto bytes = [](std::int64_t elements) {
      return static_cast<Bytes>(elements) * sizeof(sum_t<T>);
    };
    void* const bucket =
        own >= 0 ? next(cursor, bytes(plan.buckets[static_cast<std::size_t>(own)].size()))
                 : nullptr;
    for (const int use : segment().uses) {
      const auto p = static_cast<std::size_t>(plan.dag->use_at(use).parameter);
      const bool further =
          context_.builder.accumulators[0].uses[static_cast<std::size_t>(use)] != no_storage;
      bindings_.use(use) =
          further ? next(cursor, bytes(plan.dag->parameters[p].spec.shape.size()))
                  : in_bucket<sum_t<T>>(bucket, static_cast<std::size_t>(own), p);
    }
  }

  static constexpr const char* remedy =
      ".\n  why: its code finds operands by their places.\n"
      "  fix: a pass that rewrites an instruction replaces operands where they are, by storages of "
      "their size.";

  const RankContext<Device, T, Gradient>& context_;
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
      "AddGradients", [&context](const Instruction& add) -> typename Handlers<Device>::Code {
        struct Range {
          Gradient* to;
          const sum_t<T>* from;
          std::int64_t elements;
        };
        const StepPlan& plan = context.plan();
        const auto s = static_cast<std::size_t>(add.index);
        const bool adds = !begins_sum(add);
        const std::vector<Value>& targets = adds ? add.accumulates : add.writes;
        std::vector<Range> ranges;
        std::size_t next = 0;
        if (const int b = plan.bucket_of_segment[s]; b >= 0) {
          for (const auto& [begin, end] : plan.parameters_in(b)) {
            ranges.push_back({context.template at<Gradient>(targets[0]) + begin,
                              context.at(add.reads[0]) + begin, end - begin});
          }
          next = 1;
        }
        for (; next < targets.size(); ++next) {
          ranges.push_back({context.template at<Gradient>(targets[next]),
                            context.at(add.reads[next]), context.elements(add.reads[next])});
        }
        return [ranges = std::move(ranges), adds](typename Device::Lane& lane) {
          for (const Range& r : ranges) {
            fold_into(lane, r.to, r.from, r.elements, adds);
          }
        };
      });
}

}  // namespace detail

/// Adds the code of Batch, Forward, Recompute, Backward, AddGradients, FoldUses, FoldRank, Download, Upload, and of what
/// ties exchange.
template <device::device Device, real T, real Gradient>
void add_step_code(Handlers<Device>& handlers, const RankContext<Device, T, Gradient>& context) {
  using DeviceLane = typename Device::Lane;
  using Code = typename Handlers<Device>::Code;
  using Communication = typename Handlers<Device>::Communication;
  using Sum = sum_t<T>;
  handlers.on_wire("Batch", [&context](const Instruction& batch) -> Communication {
    const graph::Dag& dag = *context.plan().dag;
    std::vector<AnyView> inputs;
    for (std::size_t i = 0; i < dag.inputs.size(); ++i) {
      const graph::TensorSpec& spec = dag.tensor_at(dag.inputs[i]).spec;
      inputs.emplace_back(context.memory.at(batch.writes[i].storage), spec.shape, spec.element);
    }
    Sum* const weight = context.at(batch.writes.back());
    return context.call("batch", [&context, inputs, weight, j = batch.micro_batch] {
      context.claim(j);
      const double given = context.source(context.first_sample(j), inputs);
      if (!is_finite(given) || given < 0) {
        throw OptionError("reef::run: the source of rank ", context.rank(), " gives micro-batch ",
                          j, " the weight ", given,
                          ".\n  fix: 0 for what does not count, else a finite number above 0.");
      }
      *weight = static_cast<Sum>(given);
    });
  });

  const auto forward = [&context](const Instruction& i, graph::SegmentBindings bindings,
                                  graph::Forward what) -> Code {
    const auto& segment = context.plan().segments[static_cast<std::size_t>(i.index)];
    return [&context, &segment, what, j = i.micro_batch,
            bindings = std::move(bindings)](DeviceLane& lane) {
      context.graph.forward(segment, bindings, lane,
                            {context.state.seed, context.first_sample(j), 0, 0}, what);
    };
  };
  handlers.on_lane("Forward", [&context, forward](const Instruction& i) {
    using graph::Forward;
    const Forward trains = keeps(context.builder, i.index) ? Forward::keeps : Forward::drops;
    return forward(i, detail::Operands<Device, T, Gradient>::of_forward(context, i),
                   context.builder.trains() ? trains : Forward::infers);
  });
  handlers.on_lane("Recompute", [&context, forward](const Instruction& i) {
    return forward(i, detail::Operands<Device, T, Gradient>::of_recompute(context, i),
                   graph::Forward::recomputes);
  });

  handlers.on_lane("Backward", [&context](const Instruction& backward) -> Code {
    using Operands = detail::Operands<Device, T, Gradient>;
    const auto& segment = context.plan().segments[static_cast<std::size_t>(backward.index)];
    return [&context, &segment, j = backward.micro_batch,
            accumulate = !begins_sum(backward),
            bindings = Operands::of_backward(context, backward)](DeviceLane& lane) {
      context.graph.backward(segment, bindings, lane,
                             {context.state.seed, context.first_sample(j), 0, 0}, accumulate);
    };
  });

  if constexpr (!std::is_same_v<Gradient, Sum>) detail::add_rounding_code(handlers, context);

  handlers.on_lane("FoldUses", [&context](const Instruction& fold) -> Code {
    return context.adds_uses(fold.index, fold.accumulates[0], fold.reads);
  });

  handlers.on_lane("FoldRank", [&context](const Instruction& fold) -> Code {
    const bool accumulate = !begins_sum(fold);
    const Value target = accumulate ? fold.accumulates[0] : fold.writes[0];
    return [to = context.at(target), from = context.template at<Gradient>(fold.reads[0]),
            n = context.elements(target),
            accumulate](DeviceLane& lane) { detail::fold_into(lane, to, from, n, accumulate); };
  });

  add_tied_code(handlers, context);

  handlers.on_lane("Download",
                   [&context](const Instruction& download) { return context.copies(download); });
  handlers.on_lane("Upload",
                   [&context](const Instruction& upload) { return context.copies(upload); });
}

}  // namespace reef::inline v0::run
