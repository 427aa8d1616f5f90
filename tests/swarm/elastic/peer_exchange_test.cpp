// Trainers whose rounds an AveragingPeer agrees on with others, over sockets and a log, and their replay.

#include <reef/swarm/elastic/peer_exchange.hpp>
#include <reef/swarm/elastic/replay_exchange.hpp>

#include <array>
#include <chrono>
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
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>

#include <support/temporary_folder.hpp>

#include "peers.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;
using Peer = Trainer<swarm::Averaged<optim::AdamW>>;

/// A trainer, its exchange, and its peer in the job of a log server.
class Part {
public:
  Part(const std::string& url, const std::string& name, std::int64_t members, std::string codec = "fp32")
      : codec_(std::move(codec)),
        trainer_(peer<Peer>(exchange_, skipping())),
        log_(url),
        peer_(exchange_, trainer_, options(name, members), log_, log_) {}

  [[nodiscard]] static Peer::Options skipping() {
    auto options = small_options<Peer>();
    options.non_finite = optim::NonFinite::skip;
    return options;
  }

  /// Takes steps until so many rounds are committed, leaves, and returns the state. After round `waits_after` it waits
  /// until there are two members.
  std::vector<std::vector<std::byte>> train(std::int64_t rounds, std::int64_t waits_after = -1) {
    std::optional<std::int64_t> done = peer_->enter();
    for (; done && *done < rounds; done = peer_->enter()) {
      while (*done == waits_after && peer_->state().members.size() < 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      trainer_.step();
    }
    EXPECT_EQ(done, rounds);
    std::vector<std::vector<std::byte>> state = state_of(trainer_);
    peer_->leave("all rounds are done");
    return state;
  }

  [[nodiscard]] static std::vector<std::vector<std::byte>> state_of(Peer& trainer) {
    std::vector<std::vector<std::byte>> state;
    const swarm::StateAccess access = swarm::state_access(trainer, 4096);
    const std::int64_t count = (std::as_const(trainer).plan().layout.trained_elements + 4095) / 4096;
    for (std::int64_t k = 0; k < count; ++k) state.push_back(*access.read(k));
    return state;
  }

private:
  [[nodiscard]] swarm::AveragingOptions options(const std::string& name, std::int64_t members) {
    swarm::AveragingOptions result;
    result.genesis.job = "test";
    result.genesis.global_batch = 4;
    result.genesis.codec = codec_;
    result.genesis = swarm::genesis_of(trainer_, result.genesis);
    result.net.name = name;
    result.net.listen = "127.0.0.1:0";
    result.net.plain_loopback = true;
    result.first_members = members;
    return result;
  }

  std::string codec_;
  swarm::PeerExchange exchange_;
  Peer trainer_;
  swarm::RemoteLog log_;
  swarm::TrainerPeer peer_;
};

swarm::core::JobState job_of(const std::string& url) {
  swarm::RemoteLog log(url);
  swarm::core::JobState state;
  for (const std::string& text : swarm::BlockingLog(log).read(0))
    swarm::core::apply(state, swarm::entry_from_text(text));
  return state;
}

swarm::Ledger ledger_of(const std::string& url) { return job_of(url).ledger; }

}  // namespace

class PeerExchangeOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Codecs, PeerExchangeOf,
                         testing::Values("fp32", "bf16", "blockwise8:512", "ef:0.9+top-k:4,bf16"));

TEST_P(PeerExchangeOf, trainers_that_average_have_the_state_of_a_replay_of_the_ledger) {
  const TemporaryFolder folder;
  const swarm::LogServer server({.folder = folder / "log"});
  constexpr std::int64_t rounds = 5;
  std::array<std::vector<std::vector<std::byte>>, 2> states;
  {
    std::vector<std::jthread> threads;
    for (std::size_t m = 0; m < states.size(); ++m) {
      threads.emplace_back([&, m] { states[m] = Part(server.url(), m == 0 ? "a" : "b", 2, GetParam()).train(rounds); });
    }
  }
  EXPECT_EQ(states[0], states[1]);

  const swarm::core::JobState job = job_of(server.url());
  swarm::ReplayExchange replay(job.ledger.rounds(), swarm::PartCodec::of(job.genesis->codec), job.genesis->piece);
  EXPECT_GE(replay.steps(), rounds);
  auto trainer = peer<Peer>(replay, Part::skipping());
  while (!replay.is_done()) trainer.step();
  EXPECT_EQ(Part::state_of(trainer), states[0]);
  EXPECT_EQ(trainer.progress_state().committed, rounds);
  EXPECT_THROW(trainer.step(), OptionError);
}

TEST(PeerExchange, a_trainer_that_joins_late_gets_the_state_of_the_others) {
  const TemporaryFolder folder;
  const swarm::LogServer server({.folder = folder / "log"});
  constexpr std::int64_t rounds = 6;
  std::array<std::vector<std::vector<std::byte>>, 2> states;
  std::jthread first([&] { states[0] = Part(server.url(), "a", 1).train(rounds, 2); });
  std::jthread second([&] {
    while (ledger_of(server.url()).rounds().size() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Part late(server.url(), "b", 1);
    states[1] = late.train(rounds);
  });
  first.join();
  second.join();
  EXPECT_EQ(states[0], states[1]);
}

TEST(ReplayExchange, refuses_contributions_that_weigh_otherwise_than_the_ledger_says) {
  swarm::Ledger ledger;
  ledger.commit(0, {{{"a", 1}, {{0, 1, 2}}, 7.0, {}}});
  swarm::ReplayExchange replay(ledger.rounds());
  auto trainer = peer<Peer>(replay, Part::skipping());
  try {
    trainer.step();
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("and 7 in the ledger"));
  }
}

TEST(PeerExchange, a_step_without_a_peer_says_what_is_missing) {
  swarm::PeerExchange exchange;
  auto trainer = peer<Peer>(exchange, Part::skipping());
  try {
    trainer.step();
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("a step without a peer"));
  }
}

}  // namespace reef::test
