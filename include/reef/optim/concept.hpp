#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/policy.hpp>
#include <reef/core/units.hpp>
#include <reef/device/arithmetic.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/run/state_range.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// A rule that computes a weight's new value from its gradient and its state, for a scalar or a vector of weights.
///
///     w, state' = update(w, state, g)     element by element, so any cut into shards gives the same bits
///
/// | states              | how many numbers a weight keeps from step to step (AdamW: m and v)                    |
/// | Options             | the rule's constants                                                                  |
/// | coefficients<T>     | the values that are the same for all weights in one step (t from 1, lr, decay or not) |
/// | update(w, state, g) | V is T on a GPU, and a vector of T on the host: uses arithmetic, and the functions    |
/// |                     | of device/arithmetic.hpp; adds to a product by fma alone                              |
/// | models              | Sgd, SignSgd, Momentum, Nesterov, AdamW; Muon, which updates matrices by              |
/// |                     | optim::matrix_rule; PerGroup, which combines several rules                            |
///
/// \code
/// struct SignSgd {  // w = w - lr sign(g), but for |g| < 1e-30
///   struct Options {};
///   static constexpr std::string_view name = "sign-sgd";
///   static constexpr int states = 0;
///   SignSgd() = default;
///   explicit SignSgd(Options) {}
///   template <real T>
///   T coefficients(std::int64_t, double lr, bool) const {
///     return static_cast<T>(lr);
///   }
///   REEF_RULE template <class V, class T>
///   REEF_HOST_DEVICE static void update(V& w, V* state, const V& g, const T& lr) {
///     using device::fma, device::larger, device::smaller;
///     w = fma(V(-lr), larger(V(-1), smaller(V(1), V(1e30F) * g)), w);
///   }
/// };
/// static_assert(optim::OptimizerPolicy<optim::Zero1<SignSgd>>);
/// \endcode
template <class R>
concept update_rule = requires(const R& rule, std::int64_t t, double lr) {
  { R::states } -> std::convertible_to<int>;
  { R::name } -> std::convertible_to<std::string_view>;
  typename R::Options;
  requires std::constructible_from<R, typename R::Options>;
  rule.template coefficients<float>(t, lr, true);
  rule.template coefficients<double>(t, lr, false);
} && requires(const R& rule, float w, float* state, float g) {
  R::update(w, state, g, rule.template coefficients<float>(1, 0.1, true));
};

/// An update rule that also predicts the next weights, from its state alone:
///
///     w = predict(w, state)      with the state after t updates, and the coefficients of t
template <class R>
concept predicting_rule = update_rule<R> && requires(const R& rule, float w, const float* state) {
  R::predict(w, state, rule.template coefficients<float>(1, 0.1, true));
};

/// The number of update rules that a rule consists of: 1, or as many as a PerGroup combines. run::ParameterGroup::rule
/// is lower.
template <class R>
inline constexpr int rule_count = 1;
template <class R>
  requires requires { R::rule_count; }
inline constexpr int rule_count<R> = R::rule_count;

/// The names of the update rules that a rule consists of, in order.
template <class R>
inline constexpr std::array<std::string_view, 1> rule_names{R::name};
template <class R>
  requires requires { R::rule_names; }
inline constexpr auto rule_names<R> = R::rule_names;

using run::StateRange;

/// The options that the code of an optimizer policy (add_code) receives: the update rule with its constants, the bounds
/// of an update, and the policy's own options.
template <class O>
struct CodeOptions {
  typename O::Rule rule{};
  UpdateOptions update{};
  options_of<O> own{};
};

/// A policy that updates the weights of all ranks from the gradients of all ranks.
///
///     reserve(builder)      adds the storages that outlive a round: the rule's state
///     add(builder, model)   composes the step: `model(builder)` writes the micro-batches of
///                           builder.phase; the policy the reduction, the scalars, the update and the
///                           gathering. Sets builder.verdict to the storage of the step's Verdict, also in
///                           an evaluation, which is the model's phase and a Verdict
///     add_code(handlers, context, options)   adds the code of the instructions of `add` (P3); options:
///                           CodeOptions
///     state(builder)        the ranges of state that a checkpoint keeps
///     plan, hash, Options   optional, as of every axis: trainer/detail/hooks.hpp
///
/// | facts  | `name`: identifies the policy in a checkpoint; `sharded`: a rank keeps the state  |
/// |        | of its shards alone; `accepts`: the payloads that its reduction combines;         |
/// |        | `needs_scalars`: the update uses a number computed from all gradients (the norm); |
/// |        | optional `rounds_gradients`: they are kept and sent as plan.gradient (rule R3)    |
/// |        | optional `counts_micro_batches`: its code decides how many micro-batches a step   |
/// |        | has, and which (RankContext::give), in a loop with Repeat::expected               |
/// | laws   | P ranks compute the bits of one rank with virtual_ranks = P; the bytes sent are   |
/// |        | those of the instructions' messages                                               |
/// | models | Ddp, Zero1                                                                        |
template <class O>
concept OptimizerPolicy = std::is_same_v<policy_tag_of<O>, OptimTag> &&
                           update_rule<typename O::Rule> &&
                           requires(run::StepBuilder& builder, const run::Pass& model) {
                             { O::name } -> std::convertible_to<std::string_view>;
                             { O::sharded } -> std::convertible_to<bool>;
                             { O::accepts } -> std::convertible_to<Payload>;
                             { O::needs_scalars } -> std::convertible_to<bool>;
                             O::reserve(builder);
                             O::add(builder, model);
                             { O::state(builder) } -> std::same_as<std::vector<StateRange>>;
                           };

/// An optimizer policy whose communication overlaps with computation: while the model's micro-batches compute the next
/// gradients, it reduces and applies those that existed when the step began.
///
/// | facts    | `phases_per_step`; `warm_up`: how many steps first run without overlap;       |
/// |          | `weights_are_committed`: between steps the model's weights are the committed  |
/// |          | ones, not predicted ones                                                      |
/// | purposes | add() also writes the program of a prologue; where warm_up > 0, of a warm_up; |
/// |          | unless weights_are_committed, of gather_committed, which leaves the committed |
/// |          | weights in builder.comm_buffer                                                |
/// | models   | Dpu, DpuPredicted, AccoWp, Acco                                               |
template <class O>
concept overlapping_policy = OptimizerPolicy<O> &&
                             requires {
                               { O::phases_per_step } -> std::convertible_to<int>;
                               { O::warm_up } -> std::convertible_to<std::int64_t>;
                               { O::weights_are_committed } -> std::convertible_to<bool>;
                             };

/// An optimizer policy whose ranks step on their own, and take an outer step of all ranks together now and then:
/// training has several programs (variants), of which each step runs one.
///
/// | members  | plan(plan, options) sets plan.outer_schedule; variants(plan): how many programs   |
/// |          | there are; variant_after(plan, began, committed): the one, builder.variant, that  |
/// |          | the next step runs on every rank. `began`: the number of steps after which ranks  |
/// |          | last began at the same weights                                                    |
/// |          | unsynchronised(plan, began, steps): in a run of `steps` steps, the number of last |
/// |          | steps that some committed weight does not contain, because its outer step would   |
/// |          | come later                                                                        |
/// |          | longer_run(plan, began, steps): the shortest run that is longer than `steps` and  |
/// |          | misses fewer of its last steps; `steps` if there is none                          |
/// | verdicts | each rank decides on its own steps; a step counts on all ranks, whether or not    |
/// |          | each commits it                                                                   |
/// | purposes | add() also writes gather_committed, which leaves the outer weights in             |
/// |          | builder.comm_buffer                                                               |
/// | models   | DiLoCo                                                                            |
template <class O>
concept periodic_policy =
    OptimizerPolicy<O> && requires(run::StepPlan& plan, const options_of<O>& options) {
      O::plan(plan, options);
      { O::variants(plan) } -> std::convertible_to<int>;
      { O::variant_after(plan, std::int64_t{}, std::int64_t{}) } -> std::convertible_to<int>;
      {
        O::unsynchronised(plan, std::int64_t{}, std::int64_t{})
      } -> std::convertible_to<std::int64_t>;
      { O::longer_run(plan, std::int64_t{}, std::int64_t{}) } -> std::convertible_to<std::int64_t>;
      requires !O::weights_are_committed;
    };

/// Rule P3. A policy whose add_code adds the code of the kinds of instructions that its `add` appends.
///
/// Separate from OptimizerPolicy, which asks nothing of devices and ranks: programs can be written, proved and
/// simulated without code.
template <class O, class Handlers, class RankContext>
concept brings_code = requires(Handlers& handlers, const RankContext& context,
                               const CodeOptions<O>& options) {
  O::add_code(handlers, context, options);
};

#define REEF_P3_BRINGS_CODE                                                                   \
  "reef P3: this optimizer policy has no add_code(handlers, context, options).\n"                \
  "  why: add writes instructions, and each kind of them needs the code that runs it.\n"      \
  "  fix: a static template add_code that calls handlers.on_lane and on_wire for each kind, " \
  "or inherit it from a policy with the same kinds.\n"                                        \
  "  see: docs/rules.md#p3"

}  // namespace optim
}  // namespace v0
}  // namespace reef
