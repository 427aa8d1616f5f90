// Trainers that step on their own between rounds: bits by hand, peers that agree, join, and are replayed.

#include <reef/swarm/elastic/outer_rounds.hpp>

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/elastic/peer_exchange.hpp>
#include <reef/swarm/elastic/replay_exchange.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>

#include <support/temporary_folder.hpp>

#include "peers.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;
using LocalTrainer = Trainer<optim::Ddp<optim::AdamW>>;
using Nesterov = swarm::OuterRounds<>;
using Weights = std::vector<std::vector<float>>;

constexpr std::int64_t every = 3;

Weights weights_of(LocalTrainer& trainer) {
  Weights weights;
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    weights.push_back(trainer.parameter(parameter.name));
  }
  return weights;
}

/// A trainer that is given its micro-batches.
struct LocalPeer {
  explicit LocalPeer(int micro_batches = 1) : trainer(made(given, micro_batches)) {}

  static LocalTrainer made(const swarm::GivenMicroBatches& given, int micro_batches) {
    auto options = small_options<LocalTrainer>();
    options.micro_batches = {micro_batches};
    options.next_micro_batch = given.next();
    options.non_finite = optim::NonFinite::skip;
    return LocalTrainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, small_source(),
                        comm::Communicator::alone());
  }

  swarm::GivenMicroBatches given;
  LocalTrainer trainer;
};

/// The weights and Nesterov's momentum of a job, each round of which is computed by trainers of its own.
struct ByHand {
  Weights theta;
  Weights momentum;
  std::int64_t applied = 0;

  ByHand() {
    LocalPeer peer;
    theta = weights_of(peer.trainer);
    momentum = theta;
    for (std::vector<float>& one : momentum) std::fill(one.begin(), one.end(), 0.0F);
  }

  /// Takes a round whose contributors compute these micro-batches, one in a step.
  void round(const std::vector<Numbers>& contributors) {
    Weights sum;
    float tokens_of_all = 0;
    for (const Numbers& numbers : contributors) {
      LocalPeer peer;
      const auto& parameters = peer.trainer.model().dag().parameters;
      for (std::size_t p = 0; p < theta.size(); ++p) peer.trainer.set_parameter(parameters[p].name, theta[p]);
      peer.trainer.set_progress(applied * every, {0}, 0, 0);
      float tokens = 0;
      for (const std::int64_t number : numbers) {
        peer.given.give(std::array{number});
        tokens += static_cast<float>(peer.trainer.step().tokens);
      }
      Weights own = weights_of(peer.trainer);
      for (std::size_t p = 0; p < own.size(); ++p) {
        for (std::size_t i = 0; i < own[p].size(); ++i) own[p][i] = tokens * (theta[p][i] - own[p][i]);
      }
      tokens_of_all += tokens;
      if (sum.empty()) {
        sum = std::move(own);
        continue;
      }
      for (std::size_t p = 0; p < own.size(); ++p) {
        for (std::size_t i = 0; i < own[p].size(); ++i) sum[p][i] += own[p][i];
      }
    }
    for (std::size_t p = 0; p < sum.size(); ++p) {
      for (std::size_t i = 0; i < sum[p].size(); ++i) {
        const float g = sum[p][i] / tokens_of_all;
        momentum[p][i] = std::fma(0.9F, momentum[p][i], g);
        theta[p][i] = std::fma(-0.7F, std::fma(0.9F, momentum[p][i], g), theta[p][i]);
      }
    }
    ++applied;
  }
};

Nesterov::Options nesterov() { return {.every = every}; }

}  // namespace

TEST(OuterRounds, of_one_member_have_the_bits_of_local_steps_and_an_outer_step) {
  swarm::LocalRound exchange(1, swarm::LocalRound::in_turns({3}));
  LocalPeer peer;
  Nesterov rounds(exchange.member(0), peer.trainer, peer.given, nesterov());
  ByHand by_hand;
  EXPECT_EQ(weights_of(peer.trainer), by_hand.theta);
  for (std::int64_t round = 0; round < 3; ++round) {
    const swarm::RoundOutcome outcome = rounds.round();
    EXPECT_EQ(outcome.micro_batches, 3);
    by_hand.round({{3 * round, 3 * round + 1, 3 * round + 2}});
    EXPECT_EQ(weights_of(peer.trainer), by_hand.theta) << "after round " << round;
  }
  EXPECT_EQ(rounds.applied(), 3);
}

TEST(OuterRounds, of_two_members_weigh_their_differences_by_tokens_and_end_with_the_same_bits) {
  const auto deal = swarm::LocalRound::in_turns({3, 1});
  swarm::LocalRound exchange(2, deal);
  std::array<Weights, 2> weights;
  {
    std::vector<std::jthread> threads;
    for (int m = 0; m < 2; ++m) {
      threads.emplace_back([&, m] {
        LocalPeer peer;
        Nesterov rounds(exchange.member(m), peer.trainer, peer.given, nesterov());
        for (int round = 0; round < 3; ++round) rounds.round();
        weights[static_cast<std::size_t>(m)] = weights_of(peer.trainer);
      });
    }
  }
  EXPECT_EQ(weights[0], weights[1]);
  ByHand by_hand;
  for (std::int64_t round = 0; round < 3; ++round) {
    std::vector<Numbers> contributors(2);
    for (std::int64_t k = 0; k < 3; ++k) contributors[0].push_back(*deal(0, round, k));
    contributors[1].push_back(*deal(1, round, 0));
    by_hand.round(contributors);
  }
  EXPECT_EQ(weights[0], by_hand.theta);
}

TEST(OuterRounds, that_are_skipped_leave_theta_as_it_is) {
  swarm::LocalRound local(1, swarm::LocalRound::in_turns({3}));
  Via via(local.member(0));
  via.change = [](std::int64_t round, swarm::RoundOutcome& outcome, std::span<float> sum) {
    if (round != 1) return;
    outcome.verdict = swarm::RoundOutcome::Verdict::skip;
    std::fill(sum.begin(), sum.end(), NAN);
  };
  LocalPeer peer;
  Nesterov rounds(via, peer.trainer, peer.given, nesterov());
  ByHand by_hand;
  rounds.round();
  by_hand.round({{0, 1, 2}});
  rounds.round();
  EXPECT_EQ(weights_of(peer.trainer), by_hand.theta);
  EXPECT_EQ(rounds.applied(), 1);
  rounds.round();
  by_hand.round({{6, 7, 8}});
  EXPECT_EQ(weights_of(peer.trainer), by_hand.theta);
}

TEST(OuterRounds, offer_the_micro_batches_of_whole_steps_alone) {
  swarm::LocalRound local(1, swarm::LocalRound::in_turns({5}));
  Via via(local.member(0));
  std::vector<Numbers> offered;
  std::vector<double> weights;
  via.offered = [&](const swarm::Contribution& contribution) {
    offered.push_back(contribution.micro_batches);
    weights.push_back(contribution.weight);
  };
  LocalPeer peer(2);
  Nesterov rounds(via, peer.trainer, peer.given, nesterov());
  rounds.round();
  rounds.round();
  EXPECT_EQ(offered, (std::vector<Numbers>{{0, 1, 2, 3}, {5, 6, 7, 8}}));
  EXPECT_EQ(weights[0], 4 * small_config().batch * small_config().context);
}

TEST(OuterRounds, refuse_what_they_cannot_do) {
  swarm::LocalRound exchange(1, swarm::LocalRound::in_turns({1}));
  LocalPeer peer;
  const auto refusal = [&](const Nesterov::Options& options) {
    try {
      const Nesterov rounds(exchange.member(0), peer.trainer, peer.given, options);
    } catch (const OptionError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(nesterov()), "");
  EXPECT_THAT(refusal({.every = 0}), HasSubstr("every is 0"));
  EXPECT_THAT(refusal({.outer_learning_rate = -1}), HasSubstr("outer_learning_rate is -1"));
  EXPECT_THAT(refusal({.outer = optim::Nesterov({.weight_decay = 0.1})}), HasSubstr("weight_decay = 0.1"));
  using Averaged = Trainer<swarm::Averaged<optim::AdamW>>;
  auto averaged = test::peer<Averaged>(exchange.member(0), small_options<Averaged>());
  try {
    const Nesterov rounds(exchange.member(0), averaged, peer.given, nesterov());
    ADD_FAILURE() << "it is made";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("with the optimizer averaged"));
  }
  EXPECT_THROW(peer.given.next()(), OptionError);
}

namespace {

/// A peer of a job, whose trainer steps on its own between rounds.
template <class Outer>
class OuterPart {
public:
  OuterPart(const std::string& url, const std::string& name, const std::string& codec,
            const typename Outer::Options& options)
      : rounds_(exchange_, local_.trainer, local_.given, options),
        log_(url),
        peer_(exchange_, local_.trainer, averaging_options(name, codec), log_, log_) {}

  /// Takes rounds until so many are committed; the last one waits until there are two members.
  Weights train(std::int64_t count) {
    std::optional<std::int64_t> done = peer_->enter();
    for (; done && *done < count; done = peer_->enter()) {
      while (*done == count - 1 && peer_->state().members.size() < 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      rounds_.round();
    }
    EXPECT_EQ(done, count);
    Weights weights = weights_of(local_.trainer);
    peer_->leave("all rounds are done");
    return weights;
  }

private:
  swarm::AveragingOptions averaging_options(const std::string& name, const std::string& codec) {
    swarm::AveragingOptions result;
    result.genesis.job = "test";
    result.genesis.global_batch = 6;
    result.genesis.codec = codec;
    result.genesis = swarm::genesis_of(local_.trainer, result.genesis);
    result.state = rounds_.state_access(result.genesis.piece);
    result.net.name = name;
    result.net.listen = "127.0.0.1:0";
    result.net.plain_loopback = true;
    return result;
  }

  swarm::PeerExchange exchange_;
  LocalPeer local_;
  Outer rounds_;
  swarm::RemoteLog log_;
  swarm::TrainerPeer peer_;
};

swarm::core::JobState job_of_log(const std::string& url) {
  swarm::RemoteLog log(url);
  swarm::core::JobState state;
  for (const std::string& text : swarm::BlockingLog(log).read(0)) {
    swarm::core::apply(state, swarm::entry_from_text(text));
  }
  return state;
}

/// Trains a job of a peer, and of one that joins later, and compares both with a replay.
template <class Outer>
void expect_replay_of_peers(const std::string& codec, const typename Outer::Options& options) {
  const TemporaryFolder folder;
  const swarm::LogServer server({.folder = folder / "log"});
  constexpr std::int64_t rounds = 6;
  std::array<Weights, 2> weights;
  std::jthread first([&] { weights[0] = OuterPart<Outer>(server.url(), "a", codec, options).train(rounds); });
  std::jthread second([&] {
    while (job_of_log(server.url()).round() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    weights[1] = OuterPart<Outer>(server.url(), "b", codec, options).train(rounds);
  });
  first.join();
  second.join();
  EXPECT_EQ(weights[0], weights[1]);

  const swarm::core::JobState job = job_of_log(server.url());
  swarm::ReplayExchange replay(job.ledger.rounds(), swarm::PartCodec::of(codec), job.genesis->piece);
  LocalPeer alone;
  Outer replayed(replay, alone.trainer, alone.given, options);
  while (!replay.is_done()) replayed.round();
  EXPECT_EQ(weights_of(alone.trainer), weights[0]);
  EXPECT_EQ(replayed.applied(), rounds);
}

}  // namespace

TEST(OuterRounds, of_a_peer_and_one_that_joins_have_the_weights_of_a_replay) {
  expect_replay_of_peers<Nesterov>("fp32", nesterov());
}

TEST(OuterRounds, with_sparse_contributions_that_keep_what_they_leave_out_have_the_weights_of_a_replay) {
  using Sgd = swarm::OuterRounds<optim::Sgd>;
  expect_replay_of_peers<Sgd>("ef:0.95+chunk-top-k:64/4096+two-bit", {.every = every, .outer_learning_rate = 1});
}

}  // namespace reef::test
