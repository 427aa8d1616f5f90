#pragma once

#include <cstdint>
#include <vector>

#include <reef/core/policy_tag.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/overlapping.hpp>
#include <reef/optim/detail/overlapping_code.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// What the policies whose rounds overlap share: they differ in the number of phases, and in what
/// the weights are that gradients are taken at.
template <update_rule UpdateRule, int PhasesPerStep, std::int64_t WarmUp, Prediction prediction>
struct OverlappingPolicy {
  static_assert(WarmUp >= 0, "reef::optim: WarmUp counts steps, at least 0.");

  using policy_tag = OptimTag;
  using Rule = UpdateRule;
  static constexpr bool sharded = true;
  static constexpr Payload accepts = Payload::dense | Payload::encoded;
  static constexpr bool needs_scalars = true;
  static constexpr bool supports_offload = true;
  static constexpr bool rounds_gradients = true;
  static constexpr int phases_per_step = PhasesPerStep;
  static constexpr std::int64_t warm_up = WarmUp;
  static constexpr bool weights_are_committed = prediction == Prediction::none;

  static void plan(run::StepPlan& plan, const NoOptions& /*none*/) {
    plan.phases_per_step = phases_per_step;
    plan.own_master = true;
    plan.gathers[static_cast<std::size_t>(schedule::Traffic::parameter)] = true;
  }
  static void reserve(run::StepBuilder& builder) {
    OverlappingStep::reserve(builder, Rule::states, weights_are_committed);
  }
  static void add(run::StepBuilder& builder, const run::Pass& model) {
    OverlappingStep(builder, Rule::states).add(model, phases_per_step);
  }
  static std::vector<StateRange> state(const run::StepBuilder& builder) {
    return OverlappingStep::state(builder, Rule::states, weights_are_committed);
  }
  template <class Handlers, class RankContext, class Options>
  static void add_code(Handlers& handlers, const RankContext& context, const Options& options) {
    add_overlapping_code<prediction>(handlers, context, options.rule, options.update);
  }
};

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
