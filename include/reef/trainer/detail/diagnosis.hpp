#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/run/executable.hpp>
#include <reef/trainer/detail/finding.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

namespace kinds {

inline constexpr std::string_view inspect = "Inspect";
inline constexpr std::string_view report = "Report";

}  // namespace kinds

/// `Inspect(segment, j)`.
///
///     reads    gradients_of(segment), as the Backward before it has written or added to them
///     writes   sums of their squares
template <class Instr>
struct InspectView {
  run::PartOf<Instr> gradients, sums;

  InspectView(const run::StepBuilder& builder, Instr& inspect,
              run::Lists lists = run::Lists::found) {
    run::Layout layout(inspect, lists);
    gradients = layout.reads(builder.gradients_of(inspect.index).size());
    sums = layout.writes(1);
  }
};

/// The uses whose gradients a segment's backward writes, or a half of it, in the order in which it does.
std::vector<int> inspected_uses(const run::StepPlan& plan, int s, graph::BackwardPart part);

/// Of an Inspect and its Report: its mode.
inline graph::BackwardPart inspected_part(const schedule::Instruction& i) {
  return static_cast<graph::BackwardPart>(i.mode);
}

/// Writes the program that looks for what was not finite: the model's part of a step.
///
/// The weights are the committed ones and the samples the same, so what was not finite in the step is
/// not finite again; of overlapping rounds that is likely, since some gradients were taken at other
/// weights. Nothing is reduced, so each rank finds its own.
void add_diagnosis(run::StepBuilder& builder, const run::Pass& model);

/// Adds the code of Inspect and Report, which notes the first finding.
template <device::device Device, real T, real Gradient>
void add_diagnosis_code(run::Handlers<Device>& handlers,
                        const run::RankContext<Device, T, Gradient>& context,
                        std::shared_ptr<Finding> first) {
  using Lane = typename Device::Lane;
  const auto elements = [&context](int use) {
    const graph::Dag& dag = *context.plan().dag;
    return dag.parameter_at(dag.use_at(use).parameter).spec.shape.size();
  };

  handlers.on_lane(
      kinds::inspect,
      [&context, elements](const schedule::Instruction& i) -> typename run::Handlers<Device>::Code {
        const std::vector<int> inspected = inspected_uses(context.plan(), i.index, inspected_part(i));
        const InspectView view(context.builder, i);
        const auto uses = run::detail::Operands::of_gradients(
            context, i, view.gradients);
        auto* const sums = context.memory.template at<double>(view.sums.front().storage);
        return [inspected, elements, uses, sums](Lane& lane) {
          double* next = sums;
          for (const int use : inspected) {
            const std::int64_t n = elements(use);
            block_sums_of_squares(lane, n,
                                  static_cast<const sum_t<T>*>(uses[static_cast<std::size_t>(use)]),
                                  next, run::norm_block);
            next += run::norm_blocks(n);
          }
        };
      });

  handlers.on_wire(
      kinds::report,
      [&context, elements, first](const schedule::Instruction& i) ->
      typename run::Handlers<Device>::Communication {
        if (i.index < 0) {
          const sum_t<T>* const loss = context.at(i.reads[0]);
          return context.call("report", [loss, first, j = i.micro_batch] {
            if (first->precedes(j) || is_finite(*loss)) return;
            *first = {Finding::loss, j};
          });
        }
        const std::vector<int> inspected = inspected_uses(context.plan(), i.index, inspected_part(i));
        const auto* const sums = context.memory.template at<double>(i.reads[0].storage);
        return context.call("report", [inspected, elements, sums, first, j = i.micro_batch] {
          if (first->precedes(j)) return;
          const double* next = sums;
          for (const int use : inspected) {
            const std::int64_t blocks = run::norm_blocks(elements(use));
            for (std::int64_t block = 0; block < blocks; ++block) {
              if (is_finite(next[block])) continue;
              *first = {use, j};
              return;
            }
            next += blocks;
          }
        });
      });
}

}  // namespace detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/detail/diagnosis.ipp>
#endif
