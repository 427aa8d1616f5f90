// Trainers that average their gradients with others in the rounds of an exchange.

#include <reef/swarm/elastic/averaged.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swarm/elastic/local_round.hpp>

#include <support/small_gpt.hpp>

namespace reef::test {
namespace {

using swarm::LocalRound;
using Rule = optim::AdamW;
using Peer = Trainer<swarm::Averaged<Rule>>;
using Reference = Trainer<optim::Ddp<Rule>>;
using Numbers = std::vector<std::int64_t>;

template <class TrainerType>
TrainerType peer(swarm::RoundExchange& exchange, typename TrainerType::Options options, run::Source source = small_source()) {
  options.optim.exchange = &exchange;
  return TrainerType(nn::gpt<typename TrainerType::Device, typename TrainerType::T>(small_config(), 1), std::move(source),
                     options, small_source(), comm::Communicator::alone());
}

/// What K peers are left with that step on threads of their own.
template <class TrainerType = Peer>
std::vector<Outcome<typename TrainerType::T>> peers(LocalRound& round, int members, int steps,
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

/// The bits of Ddp on as many ranks as there are counts, whose micro-batches are those of `deal`.
template <class TrainerType = Reference>
Outcome<typename TrainerType::T> reference(const std::vector<std::int64_t>& counts, const LocalRound::Deal& deal, int steps) {
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

}  // namespace

TEST(Averaged, alone_has_the_bits_of_ddp_with_the_same_micro_batches) {
  for (const std::int64_t count : {1, 3}) {
    LocalRound round(1, LocalRound::in_turns({count}));
    const auto all = peers(round, 1, 4);
    auto options = small_options<Reference>();
    options.micro_batches = {static_cast<int>(count)};
    Reference trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {},
                      comm::Communicator::alone());
    EXPECT_EQ(all[0], outcome_of(trainer, 4)) << count;
  }
}

TEST(Averaged, peers_have_the_same_bits_and_those_of_ddp_on_as_many_ranks) {
  const std::vector<Numbers> all_counts{{1, 1}, {2, 2}, {3, 1}, {1, 2, 1}};
  for (const Numbers& counts : all_counts) {
    const auto deal = LocalRound::in_turns(counts);
    const auto members = static_cast<int>(counts.size());
    LocalRound round(members, deal);
    const auto all = peers(round, members, 4);
    for (const auto& one : all) EXPECT_EQ(one, all[0]);
    EXPECT_EQ(all[0], reference(counts, deal, 4));
  }
}

}  // namespace reef::test
