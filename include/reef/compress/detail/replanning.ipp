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

namespace reef::inline v0::compress::detail {

REEF_INLINE bool are_possible(const run::StepPlan& plan, const run::EdgeRatios& ratios) {
  return ratios.step >= 0 && ratios.by_edge.size() == plan.remote_edges.size() &&
         std::all_of(ratios.by_edge.begin(), ratios.by_edge.end(), [&](double ratio) {
           return ratio == 0 || ratio == 1 || within(ratio, least_ratio(plan), most_ratio);
         });
}

REEF_INLINE void require_possible(const run::StepPlan& plan, const Replan& replan) {
  replan.validate();
  for (const run::EdgeRatios& ratios : replan.replay) {
    if (are_possible(plan, ratios)) continue;
    throw OptionError("reef::compress::Replan: the ratios of step ", ratios.step, " are none of this plan, whose ",
                      plan.remote_edges.size(), " edges between stages have ratios of 0, 1, or ", least_ratio(plan), " to ",
                      most_ratio, ".\n  fix: those that a run of the same model, cuts and topology was told.");
  }
}

REEF_INLINE run::EdgeRatios chosen_ratios(const run::StepPlan& plan, const Replan& options, std::int64_t step) {
  run::EdgeRatios ratios{step, std::vector<double>(plan.remote_edges.size(), 0)};
  using schedule::Traffic;
  for (const Traffic traffic : {Traffic::activation, Traffic::activation_gradient}) {
    for (const Carried& carried : carried_by(plan, traffic)) {
      ratios.by_edge[static_cast<std::size_t>(carried.index)] = options.choose(carried, step).value_or(0);
    }
  }
  if (are_possible(plan, ratios)) return ratios;
  throw OptionError("reef::compress::Replan: a ratio that was chosen for step ", step + 1, " is not 1, nor from ", least_ratio(plan),
                    " on.\n  state: nothing of that step has run.\n  fix: one of those, or nothing for the codec's own.");
}

}  // namespace reef::inline v0::compress::detail
