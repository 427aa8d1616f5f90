#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/elastic/given_micro_batches.hpp>
#include <reef/swarm/elastic/round_exchange.hpp>
#include <reef/trainer/step_result.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {
namespace swarm::detail {

/// The part of OuterRounds that does not depend on the outer rule: local steps, and the numbers that peers agree on.
///
///     agreed   theta | state 0 of the outer rule | state 1 | ...        each of the flat parameter layout, in fp32
class LocalRounds {
public:
  /// `every`: local steps of a round, for the schedule of the learning rate. `states`: of the outer rule. `update`:
  /// changes the agreed numbers by a mean difference, in the t-th outer step, counted from 1.
  LocalRounds(RoundExchange& exchange, Training& training, GivenMicroBatches& given, std::function<StepResult()> step,
              std::int64_t every, int states,
              std::function<void(std::span<float> agreed, std::span<const float> mean, std::int64_t t)> update);

  RoundOutcome round();
  [[nodiscard]] std::int64_t applied() const { return applied_; }
  /// Returns an access to the agreed numbers in pieces of `numbers` numbers of the layout.
  [[nodiscard]] StateAccess access(std::int64_t numbers);

private:
  /// Sets the inner rule's states to zero, and its counts to those of the round's first step.
  void begin_steps();
  /// Takes local steps until the exchange closes the round.
  [[nodiscard]] Contribution take_steps();
  /// Reads the trainer's weights, in the flat layout; padding is zero.
  void read_weights(std::span<float> weights) const;
  /// Sets the trainer's weights to theta.
  void set_weights();
  [[nodiscard]] std::span<float> theta() { return std::span(agreed_).first(sum_.size()); }

  RoundExchange& exchange_;
  Training& training_;
  GivenMicroBatches& given_;
  std::function<StepResult()> step_;
  std::int64_t every_;
  std::function<void(std::span<float>, std::span<const float>, std::int64_t)> update_;
  std::int64_t applied_ = 0;
  std::vector<float> agreed_;
  std::vector<float> difference_;
  std::vector<float> sum_;
};

}  // namespace swarm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/elastic/detail/local_rounds.ipp>
#endif
