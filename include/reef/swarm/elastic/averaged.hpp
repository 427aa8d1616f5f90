#pragma once

#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/policy_tag.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/update.hpp>
#include <reef/swarm/elastic/detail/averaged_code.hpp>
#include <reef/swarm/elastic/detail/averaged_step.hpp>
#include <reef/swarm/elastic/round_exchange.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Data parallelism of peers that come and go: each is a Trainer in one process, has all weights, and averages
/// gradients with the others in rounds, whose contributors and micro-batches a RoundExchange decides.
///
///     w(t+1) = rule(w(t), sum over contributors and their micro-batches of weight * g / sum of weights)
///
/// | step   | a round: as many micro-batches as the exchange gives until it closes the round, also none; then the |
/// |        | sum over contributors, whose weight and loss are the round's, not this peer's                       |
/// | state  | per weight: the rule's states, and for bf16 a master weight; beside the gradient, memory of one     |
/// |        | more: what is offered, then the result in its place                                                 |
/// | bits   | all peers have the same weights after a round, on machines of one update class; those of Ddp on as  |
/// |        | many ranks with these micro-batches, if the exchange adds contributions in the order of ranks       |
/// | skips  | a round that the exchange skips, or whose sum or loss is not finite (NonFinite), changes nothing    |
/// | counts | TrainerOptions::micro_batches is what planning expects of a round; Accumulation::capped bounds it   |
/// | needs  | Options::exchange; one rank, sums in fp32 (models in fp32 and bf16)                                 |
///
/// Source: Diskin et al., arXiv 2106.10207, for rounds of a global batch among peers of any speed. Deviation: a round
/// has one result, with the same bits for all peers.
///
/// \code
/// #include <reef/swap/atom.hpp>
/// // given: swarm::RoundExchange& exchange
/// using PeerTrainer = Trainer<swap::Atom<>, swarm::Averaged<optim::AdamW>>;
/// PeerTrainer::Options options;
/// options.optim.exchange = &exchange;
/// options.non_finite = optim::NonFinite::skip;
/// \endcode
template <optim::update_rule UpdateRule>
struct Averaged {
  using policy_tag = OptimTag;
  using Rule = UpdateRule;
  static constexpr std::string_view name = "averaged";
  static constexpr bool sharded = false;
  static constexpr Payload accepts = Payload::dense;
  static constexpr bool needs_scalars = true;
  static constexpr bool supports_offload = true;
  static constexpr bool keeps_matrices_whole = true;
  static constexpr bool counts_micro_batches = true;

  /// The options of the policy Averaged, given as TrainerOptions::optim.
  struct Options {
    /// Exchange with the other peers; outlives the Trainer, and serves one Trainer alone.
    RoundExchange* exchange = nullptr;
  };

  /// Throws OptionError unless the job has one MPI rank.
  static void plan(run::StepPlan& plan, const Options& /*unused*/) {
    if (plan.ranks() == 1 && plan.virtual_ranks == 1) return;
    throw OptionError("reef::swarm::Averaged: a peer of ", plan.ranks(), " ranks and ", plan.virtual_ranks,
                      " virtual ranks.\n  why: a peer is one process, which has the whole model.\n"
                      "  fix: a Trainer on comm::Communicator::alone(), with virtual_ranks = 1.");
  }
  static void reserve(run::StepBuilder& builder) { optim::reserve_states(builder, Rule::states, false); }
  static void add(run::StepBuilder& builder, const run::Pass& model) {
    detail::AveragedStep(builder, Rule::states).add(model);
  }
  static std::vector<optim::StateRange> state(const run::StepBuilder& builder) {
    return optim::state_ranges(builder, Rule::states, false);
  }
  template <class Handlers, class RankContext, class CodeOptions>
  static void add_code(Handlers& handlers, const RankContext& context, const CodeOptions& options) {
    static_assert(std::is_same_v<typename RankContext::sum_type, float>,
                  "reef::swarm::Averaged: a peer's sums are of another type than float.\n"
                  "  why: peers exchange gradients in fp32.\n  fix: a model in fp32 or bf16.");
    if (options.own.exchange == nullptr) {
      throw OptionError("reef::swarm::Averaged: there is no exchange.\n"
                        "  fix: options.optim.exchange, a swarm::RoundExchange that outlives the Trainer.");
    }
    detail::add_round_code(handlers, context, *options.own.exchange, options.update);
    optim::add_decision_code(handlers, context, options.update);
    optim::add_own_norms_code(handlers, context);
    optim::add_update_code(handlers, context, options.rule);
  }
};

static_assert(optim::OptimizerPolicy<Averaged<optim::Sgd>>);

}  // namespace swarm
}  // namespace v0
}  // namespace reef
