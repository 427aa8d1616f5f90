#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/compress/detail/adapted_ratios.hpp>
#include <reef/compress/ratio_function.hpp>
#include <reef/compress/ratio_ramp.hpp>
#include <reef/compress/replan.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// The most that a message of n numbers takes at any ratio from `least` on, or at the codec's own: what is sent of them
/// at the least (codec/concept.hpp).
template <codec::has_ratio C>
[[nodiscard]] Bytes max_bytes_from(double least, const RatioRamp& ramp, const C& format, std::int64_t n) {
  return (std::max)(codec::with_ratio(format, least).encoded_bytes(n), ramp.max_bytes(format, n));
}

/// Ratios of that plan's edges: 0, 1, or no less than a plan has.
bool are_possible(const run::StepPlan& plan, const run::EdgeRatios& ratios);

void require_possible(const run::StepPlan& plan, const Replan& replan);

/// What is said of the step to come of the channels that `asks(traffic)` names, on a rank.
void choose_ratios(const run::StepPlan& plan, int rank, const RatioFunction& choose,
                   const std::function<bool(schedule::Traffic)>& asks, run::StepState& state);

/// A codec as it is in the step to come.
class AtStep {
public:
  /// `edge`: whose ratio is planned again; -1: none's is. `index`: of what is carried.
  AtStep(const RatioRamp& ramp, const run::StepState& state, int edge, schedule::Traffic traffic, int index)
      : ramp_(ramp), state_(&state), edge_(edge), traffic_(traffic), index_(index) {}

  template <codec::any_codec C>
  [[nodiscard]] C operator()(C format) const {
    if constexpr (codec::has_ratio<C>) {
      const std::vector<double>& chosen = state_->chosen[static_cast<std::size_t>(traffic_)];
      const auto own = static_cast<std::size_t>(index_);
      if (own < chosen.size() && chosen[own] >= 1) return codec::with_ratio(format, chosen[own]);
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
  schedule::Traffic traffic_;
  int index_;
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/replanning.ipp>
#endif
