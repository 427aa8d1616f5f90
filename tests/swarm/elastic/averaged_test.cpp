// Trainers that average their gradients with others in the rounds of an exchange.

#include <reef/swarm/elastic/averaged.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/core/error.hpp>
#include <reef/swarm/elastic/local_round.hpp>

#include "peers.hpp"

namespace reef::test {
namespace {

using swarm::LocalRound;
using swarm::RoundOutcome;
using testing::ElementsAre;
using testing::HasSubstr;
using Peer = Trainer<swarm::Averaged<optim::AdamW>>;

constexpr auto nan = std::numeric_limits<float>::quiet_NaN();

/// What a peer of its own is left with whose rounds end as `change` says.
Outcome<float> changed(Numbers numbers, int steps, Via::Change change) {
  const auto one = [numbers = std::move(numbers)](int, std::int64_t r, std::int64_t taken) {
    return taken > 0 ? std::nullopt : std::optional(numbers.at(static_cast<std::size_t>(r)));
  };
  LocalRound round(1, one);
  Via via(round.member(0));
  via.change = std::move(change);
  auto options = small_options<Peer>();
  options.non_finite = optim::NonFinite::skip;
  auto trainer = peer<Peer>(via, options);
  return outcome_of(trainer, steps);
}

}  // namespace

TEST(Averaged, alone_has_the_bits_of_ddp_with_the_same_micro_batches) {
  for (const std::int64_t count : {1, 3}) {
    LocalRound round(1, LocalRound::in_turns({count}));
    auto own = small_options<Peer>();
    own.micro_batches = {static_cast<int>(count)};  // what it evaluates, and plans with
    auto options = small_options<Reference>();
    options.micro_batches = own.micro_batches;
    std::vector<std::int64_t> updates;
    own.after_update = [&](std::int64_t committed, const ModelState&) { updates.push_back(committed); };
    auto trainer = peer<Peer>(round.member(0), own);
    Reference other(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, small_source(),
                    comm::Communicator::alone());
    EXPECT_EQ(outcome_of(trainer, 2), outcome_of(other, 2)) << count;
    EXPECT_EQ(trainer.evaluate(2), other.evaluate(2));
    EXPECT_EQ(outcome_of(trainer, 2), outcome_of(other, 2)) << count;
    EXPECT_THAT(updates, ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(trainer.progress_state().micro_batch, static_cast<std::uint64_t>(4 * count));
    EXPECT_THAT(trainer.extra_micro_batches(), ElementsAre(count));
    EXPECT_EQ(trainer.program().repeats.at(0).expected, count);
  }
}

TEST(Averaged, peers_have_the_same_bits_and_those_of_ddp_on_as_many_ranks) {
  for (const Numbers& counts : {Numbers{1, 1}, Numbers{2, 2}, Numbers{3, 1}, Numbers{1, 2, 1}}) {
    const auto deal = LocalRound::in_turns(counts);
    LocalRound round(static_cast<int>(counts.size()), deal);
    const auto all = peers<Peer>(round, static_cast<int>(counts.size()), 4);
    for (const auto& one : all) EXPECT_EQ(one, all[0]);
    EXPECT_EQ(all[0], reference(counts, deal, 4));
  }
}

TEST(Averaged, a_peer_that_has_computed_nothing_applies_what_the_others_have) {
  LocalRound round(2, LocalRound::in_turns({0, 2}));
  const auto all = peers<Peer>(round, 2, 3);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], reference({2}, LocalRound::in_turns({2}), 3));
}

TEST(Averaged, a_round_that_is_skipped_or_not_finite_changes_nothing) {
  const auto deal = [](int, std::int64_t round, std::int64_t) -> std::optional<std::int64_t> { return 2 * round; };
  const Outcome<float> expected = reference({1}, deal, 2);  // 0 and 2
  const auto skips = [](std::int64_t round, RoundOutcome& outcome, std::span<float> sum) {
    if (round == 1) outcome.verdict = RoundOutcome::Verdict::skip;
    if (round == 1) std::fill(sum.begin(), sum.end(), 5.0F);  // whatever it holds
  };
  const auto breaks = [](std::int64_t round, RoundOutcome&, std::span<float> sum) {
    if (round == 1) sum[sum.size() / 2] = nan;
  };
  const auto loses = [](std::int64_t round, RoundOutcome& outcome, std::span<float>) {
    if (round == 1) outcome.weighted_loss = nan;
  };
  for (const Via::Change& change : {Via::Change(skips), Via::Change(breaks), Via::Change(loses)}) {
    EXPECT_EQ(changed({0, 1, 2}, 3, change).weights, expected.weights);
  }
  EXPECT_NE(changed({0, 1, 2}, 3, {}).weights, expected.weights);
}

TEST(Averaged, says_of_a_skipped_round_that_it_was_not_committed_and_stops_if_it_is_to) {
  LocalRound round(1, LocalRound::in_turns({2}));
  Via via(round.member(0));
  via.change = [](std::int64_t, RoundOutcome& outcome, std::span<float>) {
    outcome.verdict = RoundOutcome::Verdict::skip;
  };
  auto options = small_options<Peer>();
  options.non_finite = optim::NonFinite::skip;
  {
    auto trainer = peer<Peer>(via, options);
    const StepResult result = trainer.step();
    EXPECT_FALSE(result.committed);
    EXPECT_EQ(result.step, 0);
    EXPECT_EQ(result.micro_batches, 2U);
    EXPECT_THAT(result.not_finite, HasSubstr("every rank's own gradients are finite"));
  }
  options.non_finite = optim::NonFinite::stop;
  auto trainer = peer<Peer>(via, options);
  EXPECT_THROW(trainer.step(), NonFiniteError);
}

TEST(Averaged, takes_the_norm_that_the_round_knows) {
  LocalRound round(1, LocalRound::in_turns({1}));
  Via via(round.member(0));
  via.change = [](std::int64_t, RoundOutcome& outcome, std::span<float>) { outcome.squares = 9; };
  auto trainer = peer<Peer>(via, small_options<Peer>());
  EXPECT_EQ(trainer.step().gradient_norm, 3);
}

TEST(Averaged, offers_what_it_was_given_up_to_its_own_bound) {
  LocalRound round(1, LocalRound::in_turns({5}));
  Via via(round.member(0));
  std::vector<Numbers> offered;
  std::vector<double> weights;
  via.offered = [&](const swarm::Contribution& contribution) {
    offered.push_back(contribution.micro_batches);
    weights.push_back(contribution.weight);
  };
  auto options = small_options<Peer>();
  {
    auto trainer = peer<Peer>(via, options);
    trainer.step();
  }
  options.accumulation = Accumulation::capped(2);
  auto trainer = peer<Peer>(via, options);
  EXPECT_EQ(trainer.step().micro_batches, 2U);
  EXPECT_THAT(offered, ElementsAre(Numbers{0, 1, 2, 3, 4}, Numbers{5, 6}));
  EXPECT_THAT(weights, ElementsAre(5, 2));
}

TEST(Averaged, a_peer_that_joins_between_two_rounds_with_the_state_of_another_has_its_bits) {
  LocalRound before(1, LocalRound::in_turns({2}));
  LocalRound after(2, LocalRound::in_turns({1, 1}));
  Via first(before.member(0));
  Via second(after.member(1));
  auto options = small_options<Peer>();
  auto old = peer<Peer>(first, options);
  outcome_of(old, 2);
  options.seed = 99;  // weights of its own, to begin with
  auto joined = peer<Peer>(second, options);
  for (const graph::Parameter& parameter : old.model().dag().parameters) {
    joined.set_parameter(parameter.name, old.parameter(parameter.name));
  }
  const auto ranges = old.state_ranges();
  const auto targets = joined.state_ranges();
  ASSERT_EQ(ranges.size(), targets.size());
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    const std::vector<float> values = old.state(ranges[k]);
    joined.set_state(targets[k], 0, std::as_bytes(std::span(values)));
  }
  joined.set_progress(old.progress_state().committed, old.new_micro_batches());
  first.to = &after.member(0);
  Outcome<float> of_old;
  std::jthread other([&] { of_old = outcome_of(old, 2); });
  const Outcome<float> of_joined = outcome_of(joined, 2);
  other.join();
  EXPECT_EQ(of_joined.weights, of_old.weights);
  EXPECT_EQ(of_joined.norms, of_old.norms);
}

TEST(Averaged, ends_its_step_with_what_the_exchange_throws) {
  const auto error_of = [](swarm::RoundExchange& exchange) -> std::string {
    try {
      auto trainer = peer<Peer>(exchange, small_options<Peer>());
      trainer.step();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  LocalRound round(1, LocalRound::in_turns({1}));
  Via via(round.member(0));
  via.offered = [](const swarm::Contribution&) { throw std::runtime_error("the keepers are away"); };
  EXPECT_THAT(error_of(via), HasSubstr("the keepers are away"));
  via.offered = {};
  via.change = [](std::int64_t, RoundOutcome&, std::span<float>) { throw std::runtime_error("out of the view"); };
  EXPECT_THAT(error_of(via), HasSubstr("out of the view"));
  LocalRound wrong(1, [](int, std::int64_t, std::int64_t) -> std::optional<std::int64_t> { return -3; });
  EXPECT_THAT(error_of(wrong.member(0)), HasSubstr("returns -3"));
  LocalRound two(2, LocalRound::in_turns({1, 1}));
  std::string error;
  std::jthread waits([&] { error = error_of(two.member(0)); });  // for member 1, which never comes
  two.leave(0);
  waits.join();
  EXPECT_THAT(error, HasSubstr("member 0 has left"));
}

TEST(Averaged, refuses_what_it_cannot_do_when_it_is_made) {
  LocalRound round(1, LocalRound::in_turns({1}));
  const auto refusal = [&](const auto& change) -> std::string {
    auto options = small_options<Peer>();
    options.optim.exchange = &round.member(0);
    change(options);
    try {
      const Peer trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {},
                         comm::Communicator::alone());
    } catch (const OptionError& error) {
      return error.what();
    }
    return "";
  };
  using Options = Peer::Options;
  EXPECT_EQ(refusal([](Options&) {}), "");
  EXPECT_THAT(refusal([](Options& o) { o.optim.exchange = nullptr; }), HasSubstr("there is no exchange"));
  EXPECT_THAT(refusal([](Options& o) { o.virtual_ranks = 2; }), HasSubstr("2 virtual ranks"));
  EXPECT_THAT(refusal([](Options& o) { o.next_micro_batch = [] { return std::uint64_t{0}; }; }),
              HasSubstr("numbers micro-batches itself"));
  EXPECT_THAT(refusal([](Options& o) { o.accumulation = Accumulation::adaptive(Accumulation::Order::shared); }),
              HasSubstr("numbers micro-batches itself"));
}

}  // namespace reef::test
