#pragma once

#include <reef/optim/concept.hpp>
#include <reef/optim/detail/synchronous.hpp>
#include <reef/optim/detail/synchronous_code.hpp>
#include <reef/optim/sgd.hpp>

namespace reef::inline v0::optim {

/// Data parallelism with sharded optimizer state: a rank updates its shard of the weights and gives it
/// to the others.
///
///     shard r of w(t+1) = rule(shard r of w(t), shard r of the reduced gradient);  all-gather w(t+1)
///
/// | state  | per weight: the rule's states / P                                                      |
/// | wire   | per rank and step about 2 (P-1)/P n elements, and the scalars: as Ddp                   |
/// | bits   | those of Ddp, whatever the rule: an update is element by element                       |
///
/// Source: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 5.1 (P_os).
template <update_rule UpdateRule>
struct Zero1 {
  using policy_tag = OptimTag;
  using Rule = UpdateRule;
  static constexpr bool sharded = true;
  static constexpr Payload accepts = Payload::dense;
  static constexpr bool needs_scalars = true;

  static void reserve(run::StepBuilder& builder) {
    detail::SynchronousStep::reserve(builder, Rule::states, sharded);
  }
  static void add(run::StepBuilder& builder) {
    detail::SynchronousStep(builder, sharded).add(Rule::states);
  }
  static std::vector<StateRange> state(const run::StepBuilder& builder) {
    return detail::SynchronousStep::state(builder, Rule::states, sharded);
  }
  template <class Handlers, class Site>
  static void add_code(Handlers& handlers, const Site& site, Rule rule, UpdateOptions options) {
    detail::SynchronousCode<Rule, Handlers, Site>(site, rule, options).add(handlers);
  }
};

static_assert(optimizer_policy<Zero1<Sgd>>);

}  // namespace reef::inline v0::optim
