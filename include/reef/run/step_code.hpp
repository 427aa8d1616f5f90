#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/graph/graph.hpp>
#include <reef/run/detail/segment_operands.hpp>
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

/// Adds the code of the instruction AddGradients: it rounds the gradients that a backward has written, and writes or
/// adds them to gradients of a narrower type. It does not touch padding between parameters.
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

/// Adds the code of the instructions Batch, Number, Forward, Recompute, Backward, AddGradients, FoldUses, FoldRank,
/// Download and Upload, and of those that exchange tied parameters, to the handlers.
template <device::device Device, real T, real Gradient>
void add_step_code(Handlers<Device>& handlers, const RankContext<Device, T, Gradient>& context) {
  using DeviceLane = typename Device::Lane;
  using Code = typename Handlers<Device>::Code;
  using Sum = sum_t<T>;
  handlers.on_wire(kinds::batch, [&context](const Instruction& batch) -> typename Handlers<Device>::Communication {
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

  handlers.on_lane(kinds::number, [&context](const Instruction& number) -> Code {
    return
        [&context, j = number.micro_batch, claims = claims_number(number)](DeviceLane& /*unused*/) {
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
    return forward(i, detail::Operands::of_forward(context, i),
                   context.builder.trains() ? trains : Forward::infers);
  });
  handlers.on_lane(kinds::recompute, [&context, forward](const Instruction& i) {
    return forward(i, detail::Operands::of_recompute(context, i),
                   graph::Forward::recomputes);
  });

  for (const std::string_view kind :
       {kinds::backward, kinds::backward_input, kinds::backward_weight}) {
    handlers.on_lane(kind, [&context](const Instruction& backward) -> Code {
      const BackwardView view(context.builder, backward);
      return [&context, &segment = view.segment(), part = view.part(), j = backward.micro_batch,
              accumulate = !begins_sum(backward),
              bindings = detail::Operands::of_backward(context, backward, view)](DeviceLane& lane) {
        detail::run_operators(context, j, [&] {
          context.graph.backward(segment, bindings, lane, {context.state.seed, context.first_sample(j), 0, 0},
                                 accumulate, part);
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
