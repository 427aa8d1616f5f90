#pragma once

#include <reef/optim/concept.hpp>
#include <reef/optim/detail/synchronous.hpp>
#include <reef/optim/detail/synchronous_code.hpp>
#include <reef/optim/sgd.hpp>

namespace reef::inline v0::optim {

/// Data parallelism: every rank reduces all gradients and updates all weights.
///
///     w(t+1) = rule(w(t), sum over ranks and micro-batches of weight * g / sum of weights)
///
/// | state  | per weight: the rule's states, on every rank                                           |
/// | wire   | per rank and step about 2 (P-1)/P n elements, and the scalars; once a step, however     |
/// |        | many micro-batches it has                                                              |
/// | order  | micro-batches ascending, then ranks ascending: the same bits from run to run           |
/// | hides  | a bucket's reduction runs under the backward of the segments before it                 |
///
/// Source: Li et al., PyTorch distributed, arXiv 2006.15704, section 3.2.
template <update_rule UpdateRule>
struct Ddp {
  using policy_tag = OptimTag;
  using Rule = UpdateRule;
  static constexpr bool sharded = false;
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

static_assert(optimizer_policy<Ddp<Sgd>>);

}  // namespace reef::inline v0::optim
