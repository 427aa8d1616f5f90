#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/nesterov.hpp>
#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/elastic/detail/local_rounds.hpp>
#include <reef/swarm/elastic/given_micro_batches.hpp>
#include <reef/swarm/elastic/round_exchange.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Data parallelism of few messages among peers that come and go: in a round each peer's trainer steps on its own, and
/// the mean of how far they came is the gradient of an outer step, which all peers take alike.
///
///     w = theta;  inner states = 0
///     w = inner(w, mean gradient of its micro-batches)        step by step, until the exchange closes the round
///     d = tokens (theta - w)                                  this peer's contribution
///     g = sum over contributors of d / sum of their tokens
///     theta, outer states = outer(theta, outer states, g)     the same bits on all peers
///
/// | steps  | a peer takes as many in a round as it is given micro-batches for, TrainerOptions::micro_batches each; |
/// |        | micro-batches of a step that the end of the round cuts off are not computed, and dealt again          |
/// | state  | theta and the outer rule's states, in fp32, and two numbers more a weight, in host memory            |
/// | rate   | inner steps of round r have the learning rates of steps r `every`, r `every` + 1, ...                 |
/// | bits   | follow from theta and the micro-batches: a peer that joins needs nothing else, a replay has them      |
/// | trainer | Trainer<optim::Ddp<Rule>> of one process, in fp32, alone or swapped; between rounds it has theta     |
/// | errors | OptionError for another trainer, an outer rule that decays weights, `every` below 1                   |
///
/// Source: Douillard et al., DiLoCo, arXiv 2311.08105, algorithm 1; with a codec with memory for contributions
/// (Genesis::codec) and optim::Sgd as outer rule SparseLoCo, arXiv 2508.15706, algorithm 1. Deviations: the inner
/// rule's states, which the papers keep, begin at zero in each round, so that they need not be known of peers that have
/// gone; contributions are weighted by tokens, since peers take unequal numbers of steps.
///
/// \code
/// // given: swarm::RoundExchange& exchange, Trainer<optim::Ddp<optim::AdamW>>& trainer
/// // given: swarm::GivenMicroBatches& given
/// swarm::OuterRounds<> rounds(exchange, trainer, given, {.every = 50});
/// const swarm::RoundOutcome outcome = rounds.round();
/// \endcode
template <optim::update_rule Outer = optim::Nesterov>
class OuterRounds {
  static_assert(!optim::needs_whole_matrices<Outer> && optim::rule_count<Outer> == 1,
                "reef::swarm::OuterRounds<Outer>: Outer is one rule that goes element by element, as Nesterov.");

public:
  /// The options of the outer step, equal on all peers.
  struct Options {
    std::int64_t every = 50;  ///< local steps of a round that the schedule of the learning rate counts
    Outer outer{};
    double outer_learning_rate = 0.7;

    /// Throws OptionError that names the first impossible option.
    void validate() const {
      if (every < 1) {
        throw OptionError("reef::swarm::OuterRounds: every is ", every, ".\n  fix: 1 or more local steps.");
      }
      if (!within(outer_learning_rate, 0, 1e3)) {
        throw OptionError("reef::swarm::OuterRounds: outer_learning_rate is ", outer_learning_rate,
                          ".\n  fix: from 0 to 1e3.");
      }
      if constexpr (requires { outer.validate(); }) outer.validate();
      if constexpr (requires { outer.options.weight_decay; }) {
        if (outer.options.weight_decay != 0) {
          throw OptionError("reef::swarm::OuterRounds: the outer rule has weight_decay = ", outer.options.weight_decay,
                            ".\n  why: an outer step moves weights by what peers did, and decays none."
                            "\n  fix: 0 there, and a decay of the inner rule.");
        }
      }
    }
  };

  /// Begins with the trainer's weights as theta. All that is given outlives this object; `given` is that of
  /// TrainerOptions::next_micro_batch.
  template <class TrainerType>
  OuterRounds(RoundExchange& exchange, TrainerType& trainer, GivenMicroBatches& given, const Options& options)
      : rounds_(exchange, trainer, given, [&trainer] { return trainer.step(); }, validated(options).every,
                Outer::states, [options](std::span<float> agreed, std::span<const float> mean, std::int64_t t) {
                  update(options, agreed, mean, t);
                }) {}
  OuterRounds(const OuterRounds&) = delete;
  OuterRounds& operator=(const OuterRounds&) = delete;

  /// Takes part in a round: local steps, contribution, result, outer step. Blocks as the exchange does.
  RoundOutcome round() { return rounds_.round(); }
  /// Returns the number of outer steps that theta contains.
  [[nodiscard]] std::int64_t applied() const { return rounds_.applied(); }
  /// Returns an access to theta and the outer rule's states for AveragingOptions::state, in pieces of `numbers`
  /// numbers of the layout. This object outlives the access.
  [[nodiscard]] StateAccess state_access(std::int64_t numbers) { return rounds_.access(numbers); }

private:
  static const Options& validated(const Options& options) {
    options.validate();
    return options;
  }

  static void update(const Options& options, std::span<float> agreed, std::span<const float> mean, std::int64_t t) {
    constexpr auto states = static_cast<std::size_t>(Outer::states);
    const auto c = options.outer.template coefficients<float>(t, options.outer_learning_rate, false);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      std::array<float, states + 1> state{};
      for (std::size_t k = 0; k < states; ++k) state[k] = agreed[(k + 1) * mean.size() + i];
      float weight = agreed[i];
      Outer::update(weight, state.data(), mean[i], c);
      agreed[i] = weight;
      for (std::size_t k = 0; k < states; ++k) agreed[(k + 1) * mean.size() + i] = state[k];
    }
  }

  detail::LocalRounds rounds_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
