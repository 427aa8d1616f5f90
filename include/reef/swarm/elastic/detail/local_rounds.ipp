#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/elastic/detail/local_rounds.hpp>

namespace reef {
inline namespace v0 {
namespace swarm::detail {

/// Calls f(name, first number in the layout, numbers) for each trained parameter.
template <class F>
void for_each_trained(const run::StepPlan& plan, const F& f) {
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    const graph::Parameter& parameter = plan.dag->parameters[p];
    if (parameter.frozen) continue;
    f(parameter.name, static_cast<std::size_t>(plan.layout.parameters[p]),
      static_cast<std::size_t>(parameter.spec.shape.size()));
  }
}

REEF_INLINE LocalRounds::LocalRounds(
    RoundExchange& exchange, Training& training, GivenMicroBatches& given, std::function<StepResult()> step,
    std::int64_t every, int states,
    std::function<void(std::span<float> agreed, std::span<const float> mean, std::int64_t t)> update)
    : exchange_(exchange),
      training_(training),
      given_(given),
      step_(std::move(step)),
      every_(every),
      update_(std::move(update)) {
  const Training::PolicyFacts facts = std::as_const(training).facts();
  if (training.ranks() != 1 || facts.optimizer != "ddp" || facts.state.element != Element::float32) {
    throw OptionError("reef::swarm::OuterRounds: a trainer of ", training.ranks(), " ranks, with the optimizer ",
                      facts.optimizer,
                      ".\n  why: a peer is one process with the whole model in fp32, whose state between two steps is "
                      "weights and what its rule keeps.\n"
                      "  fix: Trainer<optim::Ddp<Rule>> on comm::Communicator::alone(), with a model in fp32.");
  }
  const auto numbers = static_cast<std::size_t>(std::as_const(training).plan().layout.trained_elements);
  agreed_.resize(numbers * static_cast<std::size_t>(1 + states));
  difference_.resize(numbers);
  sum_.resize(numbers);
  read_weights(theta());
}

REEF_INLINE RoundOutcome LocalRounds::round() {
  exchange_.begin(applied_);
  begin_steps();
  Contribution own = take_steps();
  read_weights(difference_);
  const auto tokens = static_cast<float>(own.weight);
  const std::span<const float> start = theta();
  for (std::size_t i = 0; i < difference_.size(); ++i) difference_[i] = tokens * (start[i] - difference_[i]);
  own.gradient = difference_;
  exchange_.offer(own);
  const RoundOutcome outcome = exchange_.result(sum_);
  if (outcome.verdict == RoundOutcome::Verdict::apply && outcome.weight > 0) {
    const auto all = static_cast<float>(outcome.weight);
    for (float& number : sum_) number /= all;
    update_(agreed_, sum_, ++applied_);
  }
  set_weights();
  return outcome;
}

REEF_INLINE void LocalRounds::begin_steps() {
  for (const run::StateRange& range : training_.state_ranges()) {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(range.elements) * size_of(range.element));
    training_.set_state(range, 0, zeros);
  }
  training_.set_progress(applied_ * every_, training_.new_micro_batches(), 0, 0);
}

REEF_INLINE Contribution LocalRounds::take_steps() {
  const auto in_a_step = static_cast<std::size_t>(std::as_const(training_).plan().micro_batches_of(0));
  Contribution own{{}, 0, 0, {}};
  std::vector<std::int64_t> indices;
  while (const std::optional<std::int64_t> next = exchange_.next_micro_batch()) {
    indices.push_back(*next);
    if (indices.size() < in_a_step) continue;
    given_.give(indices);
    const StepResult result = step_();
    if (result.committed) {
      const auto tokens = static_cast<double>(result.tokens);
      own.weight += tokens;
      own.weighted_loss += tokens * result.loss;
      own.micro_batches.insert(own.micro_batches.end(), indices.begin(), indices.end());
    }
    indices.clear();
  }
  return own;
}

REEF_INLINE void LocalRounds::read_weights(std::span<float> weights) const {
  const ModelState& state = training_.model_state();
  for_each_trained(std::as_const(training_).plan(), [&](const std::string& name, std::size_t first, std::size_t count) {
    const std::span<std::byte> room = std::as_writable_bytes(weights.subspan(first, count));
    const std::span<const std::byte> from = state.weights(name, 0, room);
    if (from.data() != room.data()) std::copy(from.begin(), from.end(), room.begin());
  });
}

REEF_INLINE void LocalRounds::set_weights() {
  ModelState& state = training_.model_state();
  const std::span<const float> weights = theta();
  for_each_trained(std::as_const(training_).plan(), [&](const std::string& name, std::size_t first, std::size_t count) {
    state.set_weights(name, 0, std::as_bytes(weights.subspan(first, count)), Element::float32);
  });
}

REEF_INLINE StateAccess LocalRounds::access(std::int64_t numbers) {
  const auto layout = sum_.size();
  const auto piece = static_cast<std::size_t>(numbers);
  const auto copies = agreed_.size() / layout;
  const auto length_of = [layout, piece](std::size_t at) { return (std::min)(piece, layout - at * piece); };
  StateAccess access;
  access.read = [this, layout, piece, copies, length_of](std::int64_t at) {
    const auto k = static_cast<std::size_t>(at);
    std::vector<std::byte> bytes;
    for (std::size_t copy = 0; copy < copies; ++copy) {
      const auto own = std::as_bytes(std::span<const float>(agreed_).subspan(copy * layout + k * piece, length_of(k)));
      bytes.insert(bytes.end(), own.begin(), own.end());
    }
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  };
  access.write = [this, layout, piece, copies, length_of](std::span<const Bulk> pieces, std::int64_t /*rounds*/,
                                                           std::int64_t applied) {
    const bool fits = pieces.size() == (layout + piece - 1) / piece;
    for (std::size_t k = 0; k < pieces.size(); ++k) {
      if (!fits || pieces[k]->size() != copies * length_of(k) * sizeof(float)) {
        throw DecodeError("reef::swarm::OuterRounds: piece ", k, " of ", pieces.size(), " has ", pieces[k]->size(),
                          " bytes.\n  why: another model, or another outer rule.\n  fix: peers that have these alike.");
      }
    }
    for (std::size_t k = 0; k < pieces.size(); ++k) {
      for (std::size_t copy = 0; copy < copies; ++copy) {
        std::memcpy(agreed_.data() + copy * layout + k * piece,
                    pieces[k]->data() + copy * length_of(k) * sizeof(float), length_of(k) * sizeof(float));
      }
    }
    applied_ = applied;
    set_weights();
  };
  return access;
}

}  // namespace swarm::detail
}  // namespace v0
}  // namespace reef
