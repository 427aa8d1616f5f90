#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/compress/detail/adapted_ratios.hpp>
#include <reef/compress/detail/replanning.hpp>
#include <reef/compress/ratio_ramp.hpp>
#include <reef/compress/replan.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

REEF_INLINE bool are_possible(const run::StepPlan& plan, const run::EdgeRatios& ratios) {
  return ratios.step >= 0 && ratios.by_edge.size() == plan.remote_edges.size() &&
         std::all_of(ratios.by_edge.begin(), ratios.by_edge.end(), [&](double ratio) {
           return ratio == 0 || ratio == 1 || within(ratio, least_ratio(plan), max_ratio);
         });
}

REEF_INLINE void require_possible(const run::StepPlan& plan, const Replan& replan) {
  replan.validate();
  for (const run::EdgeRatios& ratios : replan.replay) {
    if (are_possible(plan, ratios)) continue;
    throw OptionError("reef::compress::Replan: the ratios of step ", ratios.step, " are none of this plan, whose ",
                      plan.remote_edges.size(), " edges between stages have ratios of 0, 1, or ", least_ratio(plan),
                      " to ", max_ratio, ".\n  fix: those that a run of the same model, cuts and topology was told.");
  }
}

REEF_INLINE void choose_ratios(const run::StepPlan& plan, int rank, const RatioFunction& choose,
                               const std::function<bool(schedule::Traffic)>& asks, run::StepState& state) {
  for (std::size_t t = 0; t < schedule::traffic_count; ++t) {
    const auto traffic = static_cast<schedule::Traffic>(t);
    std::vector<double>& ratios = state.chosen[t];
    ratios.clear();
    if (!plan.wire[t].encodes() || !asks(traffic)) continue;
    const auto ask = [&](const CodedMessages& messages, bool is_own) {
      const double ratio = choose.at(messages, state.committed).value_or(0);
      const auto at = static_cast<std::size_t>(messages.index);
      if (!is_own || !plan.wire[t].encodes(messages.index)) return;
      ratios.resize((std::max)(ratios.size(), at + 1), 0);
      ratios[at] = ratio;
    };
    if (traffic != schedule::Traffic::pseudo_gradient) {
      for (const CodedMessages& messages : coded_messages_of(plan, traffic)) ask(messages, true);
      continue;
    }
    // Of all stages, so that what is refused is refused on all ranks.
    for (int stage = 0; stage < plan.topology.stages; ++stage) {
      const int holder = plan.topology.rank(0, stage);
      for (const CodedMessages& messages : coded_pieces_of(plan, holder))
        ask(messages, stage == plan.topology.stage_of(rank));
    }
  }
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
