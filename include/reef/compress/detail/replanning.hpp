#pragma once

#include <algorithm>
#include <cstddef>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/compress/detail/adapted_ratios.hpp>
#include <reef/compress/ratio_ramp.hpp>
#include <reef/compress/replan.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/world.hpp>

namespace reef::inline v0::compress::detail {

/// The most that a message of n numbers takes at any ratio that may be planned, or at the codec's own: the fewer are sent the
/// less, but that all of them need no indices.
template <codec::has_ratio C>
[[nodiscard]] Bytes most_bytes_at_any_ratio(const RatioRamp& ramp, const C& format, double least, std::int64_t n) {
  return std::max({ramp.most_bytes(codec::with_ratio(format, 1), n), ramp.most_bytes(codec::with_ratio(format, least), n),
                   ramp.most_bytes(format, n)});
}

inline constexpr double most_ratio = 1e12;  // of a codec

/// Ratios of that plan's edges: 0, 1, or no less than a plan has.
bool are_possible(const run::StepPlan& plan, const run::EdgeRatios& ratios);

void require_possible(const run::StepPlan& plan, const Replan& replan);

/// What `choose` says of each edge.
run::EdgeRatios chosen_ratios(const run::StepPlan& plan, const Replan& options, std::int64_t step);

/// A codec as it is in the step to come.
class AtStep {
public:
  /// `edge`: whose ratio is planned again; -1: none's is.
  AtStep(const RatioRamp& ramp, const run::StepState& state, int edge) : ramp_(ramp), state_(&state), edge_(edge) {}

  template <codec::any_codec C>
  [[nodiscard]] C operator()(C format) const {
    if constexpr (codec::has_ratio<C>) {
      const auto at = static_cast<std::size_t>(edge_);
      if (edge_ >= 0 && at < state_->ratios.by_edge.size() && state_->ratios.by_edge[at] >= 1) {
        format = codec::with_ratio(format, state_->ratios.by_edge[at]);
      }
    }
    return ramp_.at(state_->committed, format);
  }

private:
  RatioRamp ramp_;
  const run::StepState* state_;
  int edge_;
};

}  // namespace reef::inline v0::compress::detail

#ifndef REEF_COMPILED
#include <reef/compress/detail/replanning.ipp>
#endif
