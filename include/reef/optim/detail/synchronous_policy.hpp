#pragma once

#include <vector>

#include <reef/core/policy_tag.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/synchronous.hpp>
#include <reef/optim/detail/synchronous_code.hpp>
#include <reef/optim/update.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// What Ddp and Zero1 share: they differ in where the states of the rule are kept.
template <update_rule UpdateRule, bool Sharded>
struct SynchronousPolicy {
  using policy_tag = OptimTag;
  using Rule = UpdateRule;
  static constexpr bool sharded = Sharded;
  static constexpr Payload accepts = Payload::dense | Payload::encoded;
  static constexpr bool needs_scalars = true;
  static constexpr bool supports_offload = true;
  static constexpr bool updates_within_a_step = true;
  static constexpr bool keeps_matrices_whole = true;

  static void plan(run::StepPlan& plan, const NoOptions& /*none*/) {
    plan.gathers[static_cast<std::size_t>(sharded ? schedule::Traffic::parameter : schedule::Traffic::gradient)] = true;
  }
  static void reserve(run::StepBuilder& builder) { reserve_states(builder, Rule::states, sharded); }
  static void add(run::StepBuilder& builder, const run::Pass& model) {
    builder.update = [](run::StepBuilder& step, const run::StepBuilder::Update& update) {
      add_updates_within(step, update, Rule::states);
    };
    model(builder);
    SynchronousStep(builder, sharded).add(Rule::states);
  }
  static std::vector<StateRange> state(const run::StepBuilder& builder) {
    return state_ranges(builder, Rule::states, sharded);
  }
  template <class Handlers, class RankContext, class Options>
  static void add_code(Handlers& handlers, const RankContext& context, const Options& options) {
    add_synchronous_code(handlers, context, options.rule, options.update);
  }
};

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
