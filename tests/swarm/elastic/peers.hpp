#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/swarm/elastic/averaged.hpp>
#include <reef/swarm/elastic/local_round.hpp>

#include <support/small_gpt.hpp>

// Peers of one process, and what they are held against.

namespace reef::test {

using Reference = Trainer<optim::Ddp<optim::AdamW>>;
using Numbers = std::vector<std::int64_t>;

/// An exchange that passes on to another, which may change between two rounds, and lets a test look on and interfere.
class Via final : public swarm::RoundExchange {
public:
  using Change = std::function<void(std::int64_t round, swarm::RoundOutcome& outcome, std::span<float> sum)>;

  explicit Via(swarm::RoundExchange& exchange) : to(&exchange) {}

  swarm::RoundExchange* to;
  std::function<void(const swarm::Contribution&)> offered{};
  Change change{};

  void begin(std::int64_t steps) override { to->begin(steps); }
  std::optional<std::int64_t> next_micro_batch() override { return to->next_micro_batch(); }
  void offer(const swarm::Contribution& contribution) override {
    if (offered) offered(contribution);
    to->offer(contribution);
  }
  swarm::RoundOutcome result(std::span<float> sum) override {
    swarm::RoundOutcome outcome = to->result(sum);
    if (change) change(round_, outcome, sum);
    ++round_;
    return outcome;
  }
  void interrupt() noexcept override { to->interrupt(); }

private:
  std::int64_t round_ = 0;
};

/// The small GPT of a peer, in a process alone.
template <class TrainerType>
TrainerType peer(swarm::RoundExchange& exchange, typename TrainerType::Options options) {
  options.optim.exchange = &exchange;
  return TrainerType(nn::gpt<typename TrainerType::Device, typename TrainerType::T>(small_config(), 1), small_source(),
                     options, small_source(), comm::Communicator::alone());
}

/// What peers are left with that step on threads of their own.
template <class TrainerType>
std::vector<Outcome<typename TrainerType::T>> peers(
    swarm::LocalRound& round, int members, int steps,
    const typename TrainerType::Options& options = small_options<TrainerType>()) {
  std::vector<Outcome<typename TrainerType::T>> outcomes(static_cast<std::size_t>(members));
  {
    std::vector<std::jthread> threads;
    for (int m = 0; m < members; ++m) {
      threads.emplace_back([&, m] {
        auto trainer = peer<TrainerType>(round.member(m), options);
        outcomes[static_cast<std::size_t>(m)] = outcome_of(trainer, steps);
      });
    }
  }
  return outcomes;
}

/// What Ddp is left with on as many ranks as there are counts, whose micro-batches are those of `deal`.
template <class TrainerType = Reference>
Outcome<typename TrainerType::T> reference(const Numbers& counts, const swarm::LocalRound::Deal& deal, int steps) {
  auto options = alone_options<TrainerType>({counts.begin(), counts.end()});
  Numbers numbers;
  for (std::int64_t round = 0; round < steps; ++round) {
    for (std::size_t m = 0; m < counts.size(); ++m) {
      for (std::int64_t k = 0; k < counts[m]; ++k) numbers.push_back(*deal(static_cast<int>(m), round, k));
    }
  }
  options.next_micro_batch = [numbers, next = std::make_shared<std::size_t>(0)] {
    return static_cast<std::uint64_t>(numbers.at((*next)++));
  };
  TrainerType trainer(nn::gpt<device::Host, typename TrainerType::T>(small_config(), 1), small_source(), options, {},
                      comm::Communicator::alone());
  return outcome_of(trainer, steps);
}

}  // namespace reef::test
