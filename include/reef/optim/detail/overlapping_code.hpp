#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/device/transform.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/detail/rule_kernel.hpp>
#include <reef/optim/detail/synchronous_code.hpp>
#include <reef/optim/update.hpp>
#include <reef/run/shared_loop.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// Adds the code of Estimate and Update. If the verdict does not commit, the committed weights
/// leave as they are.
///
///     Estimate, Update:  step t + 1 with its learning rate
///     predicted:         repeated_update as step t + 2, momentum by the state of t + 1; with the next rate
template <bool Commits, Prediction prediction, class Handlers, class RankContext, class Rule>
void add_outgoing_code(Handlers& handlers, const RankContext& context,
                       std::string_view kind, Rule rule) {
  using T = typename RankContext::element_type;
  using E = typename RankContext::sum_type;
  using DeviceLane = typename Handlers::Lane;
  handlers.on_lane(
      kind, [&context, rule](const schedule::Instruction& i) -> typename Handlers::Code {
        const run::StepPlan& plan = context.plan();
        const std::int64_t begin = i.elements.first;
        const std::int64_t n = i.elements.second - begin;
        const OutgoingView view(context.builder, i, Rule::states);
        OutgoingKernel<Rule, T, Commits, prediction> kernel;
        kernel.out = context.template at<T>(view.outgoing.front());
        kernel.g = context.at(view.gradient.front());
        for (std::size_t k = 0; k < Rule::states; ++k) kernel.state[k] = context.at(view.states[k]);
        kernel.master = context.at(view.master.front());
        const auto* const verdict = context.template at<const Verdict>(view.verdict.front());
        return [runs = runs_of(plan, i.index, begin, n), kernel, n, verdict, &state = context.state,
                rule](DeviceLane& lane) mutable {
          if (!verdict->commit) {
            transform_vectors<T>(lane, n, PublishKernel<T>{kernel.out, kernel.master});
            return;
          }
          kernel.scale = static_cast<E>(verdict->scale);
          const std::int64_t t = state.committed + 1;
          apply<T>(lane, runs, kernel, rule, [&](auto& part, const auto& own, const Run& run) {
            part.c = coefficients_of<E>(own, run, t, state.learning_rate);
            part.next = coefficients_of<E>(own, run, prediction == Prediction::repeated_update ? t + 1 : t,
                                           state.next_learning_rate);
          });
        };
      });
}

/// Adds the code of what OverlappingStep appends.
template <Prediction prediction, class Handlers, class RankContext, class Rule>
void add_overlapping_code(Handlers& handlers, const RankContext& context, Rule rule,
                          UpdateOptions options) {
  using DeviceLane = typename Handlers::Lane;
  using Code = typename Handlers::Code;
  add_collective_code(handlers, context);
  run::add_shared_loop_code(handlers, context);
  add_decision_code(handlers, context, options);
  add_outgoing_code<false, Prediction::none>(handlers, context, kinds::estimate, rule);
  add_outgoing_code<true, prediction>(handlers, context, kinds::update, rule);

  handlers.on_lane(kinds::hand_over, [&context](const schedule::Instruction& i) -> Code {
    const HandOverView view(context.builder, i);
    const run::Value from = view.gradient.front();
    const run::Value to = view.sum.front();
    return [copy = context.memory.copy({to.storage}, {from.storage}, context.storage(from).bytes),
            add_uses = context.adds_uses(i.index, to, view.uses)](DeviceLane& lane) {
      copy(lane);
      add_uses(lane);
    };
  });
  for (const std::string_view kind : {kinds::install, kinds::hand_counts}) {
    handlers.on_lane(
        kind, [&context](const schedule::Instruction& i) -> Code { return context.copies(i); });
  }
  add_publish_code(handlers, context);
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
