#include <reef/swarm/average/averaging_peer.hpp>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/swarm/average/dense_parts.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/sha256.hpp>
#include <support/temporary_folder.hpp>
#include <swarm/average/averaging_process.hpp>

namespace reef::swarm {
namespace {

using reef::test::TemporaryFolder;
using test::AveragingProcess;
using test::state_of;
using test::wait_for_round;
using testing::HasSubstr;

TEST(Sha256, is_that_of_the_standard) {
  const std::string text = "abc";
  EXPECT_EQ(to_hex(sha256(std::as_bytes(std::span(text)))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DenseParts, fold_in_the_order_of_contributors) {
  const core::RoundFunctions functions = dense_functions(3, 2);
  const std::vector<float> one{1e8F, 1, 2};
  const std::vector<float> two{1, 1, 3};
  const std::vector<float> three{-1e8F, 1, 4};
  const std::vector<Bulk> results{
      functions.fold(0, std::vector<Bulk>{dense_parts(one, 2)[0], dense_parts(two, 2)[0], dense_parts(three, 2)[0]}),
      functions.fold(1, std::vector<Bulk>{dense_parts(one, 2)[1], dense_parts(two, 2)[1], dense_parts(three, 2)[1]})};
  std::vector<float> sum(3);
  read_dense_parts(results, sum);
  EXPECT_EQ(sum, (std::vector<float>{0, 3, 9})) << "1e8 + 1 is 1e8 in fp32";
  const RoundVerdict verdict = functions.judge(results, 3, 6);
  EXPECT_TRUE(verdict.finite);
  EXPECT_EQ(verdict.loss, 2);
  EXPECT_NEAR(verdict.norm, std::sqrt(90.0) / 3, 1e-12);
  std::vector<float> longer(4);
  EXPECT_THROW(read_dense_parts(results, longer), DecodeError);
}

TEST(DenseParts, of_another_length_or_not_finite_are_not_accepted) {
  const core::RoundFunctions functions = dense_functions(3, 2);
  const std::vector<float> numbers{1, 2, 3};
  EXPECT_TRUE(functions.accepts(1, dense_parts(numbers, 2)[1]));
  EXPECT_FALSE(functions.accepts(0, dense_parts(numbers, 2)[1]));
  const std::vector<float> infinite{1, INFINITY, 3};
  EXPECT_FALSE(functions.accepts(0, dense_parts(infinite, 2)[0]));
  EXPECT_TRUE(functions.accepts(1, dense_parts(infinite, 2)[1]));
}

/// The options of a peer of a job of 10 parameters, on loopback.
AveragingOptions loopback_options(const std::string& name) {
  AveragingOptions options;
  options.genesis.job = "one";
  options.genesis.parameters = 10;
  options.genesis.piece = 4;
  options.net.name = name;
  options.net.listen = "127.0.0.1:0";
  options.net.plain_loopback = true;
  return options;
}

TEST(AveragingPeer, killed_with_9_does_not_stop_the_others_and_a_newcomer_gets_their_bits) {
  const TemporaryFolder folder;
  const LogServer server({.listen = "127.0.0.1:0", .folder = folder.path() / "log"});
  constexpr int rounds = 40;
  AveragingProcess a(folder.path(), server.url(), "a", rounds, 3);
  AveragingProcess b(folder.path(), server.url(), "b", rounds, 3);
  AveragingProcess c(folder.path(), server.url(), "c", rounds, 3);
  wait_for_round(server.url(), 3);
  c.kill();
  AveragingProcess d(folder.path(), server.url(), "d", rounds, 3);
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
  EXPECT_EQ(d.wait(), 0);
  EXPECT_THAT(a.weights(), HasSubstr("has weights"));
  EXPECT_EQ(b.weights(), a.weights());
  EXPECT_EQ(d.weights(), a.weights());

  const core::JobState state = state_of(server.url());
  EXPECT_GE(state.round(), rounds);
  EXPECT_EQ(state.ignored, 0);
  EXPECT_EQ(state.ledger.committed().count() + state.ledger.quarantined().count() +
                static_cast<std::int64_t>(state.ledger.holes().size()),
            state.ledger.end());
  std::set<std::string> contributors;
  for (const Ledger::Round& round : state.ledger.rounds()) {
    for (const Share& share : round.shares) contributors.insert(share.id.name);
  }
  EXPECT_THAT(contributors, testing::IsSupersetOf({"a", "b", "c", "d"}));
}

TEST(AveragingPeer, all_killed_with_9_begin_again_with_the_state_of_the_last_checkpoint) {
  const TemporaryFolder folder;
  const LogServer server({.listen = "127.0.0.1:0", .folder = folder.path() / "log"});
  constexpr int rounds = 16;
  const auto start = [&](const std::string& name) {
    return AveragingProcess(folder.path(), server.url(), name, rounds, 2, "fp32", {},
                            (folder.path() / ("states-" + name)).string());
  };
  {
    AveragingProcess a = start("a");
    AveragingProcess b = start("b");
    while (!state_of(server.url()).checkpoint) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    a.kill();
    b.kill();
  }
  core::JobState before = state_of(server.url());
  const LogCheckpoint checkpoint = *before.checkpoint;
  EXPECT_EQ(checkpoint.rounds % 4, 0);
  EXPECT_EQ(checkpoint.holders.size(), 2U);
  RemoteLog remote(server.url());
  ChainedLog log(remote);
  const std::string back = to_text(Entry{{"operator", 1}, 1, Rollback{checkpoint.rounds, "all were killed"}});
  while (before.round() > checkpoint.rounds) {
    static_cast<void>(BlockingLog(log).append(static_cast<LogIndex>(before.entries), back));
    before = state_of(server.url());
  }
  AveragingProcess a = start("a");
  AveragingProcess b = start("b");
  AveragingProcess c = start("c");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
  EXPECT_EQ(c.wait(), 0);
  EXPECT_THAT(a.output(), HasSubstr("begins with the state that it has kept"));
  EXPECT_THAT(a.weights(), HasSubstr("has weights"));
  EXPECT_EQ(b.weights(), a.weights());
  EXPECT_EQ(c.weights(), a.weights());
  const core::JobState after = state_of(server.url());
  EXPECT_EQ(after.ignored, 0);
  EXPECT_GT(after.checkpoint->rounds, checkpoint.rounds);
  EXPECT_EQ(after.ledger.committed().count() + static_cast<std::int64_t>(after.ledger.holes().size()),
            after.ledger.end());
}

TEST(AveragingPeer, of_a_log_that_is_cut_behind_checkpoints_joins_and_has_the_bits_of_the_others) {
  const TemporaryFolder folder;
  const LogServer server({.listen = "127.0.0.1:0", .folder = folder.path() / "log", .cut = true});
  constexpr int rounds = 48;
  const auto start = [&](const std::string& name) {
    return AveragingProcess(folder.path(), server.url(), name, rounds, 2, "ef+top-k:8,bf16", {},
                            (folder.path() / ("states-" + name)).string());
  };
  RemoteLog remote(server.url());
  ChainedLog log(remote);
  AveragingProcess a = start("a");
  AveragingProcess b = start("b");
  while (BlockingLog(log).page(0).from == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  AveragingProcess c = start("c");
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
  EXPECT_EQ(c.wait(), 0);
  EXPECT_THAT(a.weights(), HasSubstr("has weights"));
  EXPECT_EQ(b.weights(), a.weights());
  EXPECT_EQ(c.weights(), a.weights());
  EXPECT_EQ(log.tampering(), "");
  const core::JobState after = state_of(server.url());
  EXPECT_EQ(after.round(), rounds);
  EXPECT_EQ(after.ignored, 0);
  EXPECT_EQ(after.checkpoint->rounds, rounds);
  EXPECT_GE(after.forgotten, rounds - 8) << "the log begins with the last checkpoint but one";
  EXPECT_EQ(after.ledger.committed().count() + static_cast<std::int64_t>(after.ledger.holes().size()),
            after.ledger.end());
}

TEST(AveragingPeer, peers_have_the_same_bits_of_what_codecs_decode_to_and_one_of_another_codec_is_refused) {
  for (const std::string codec : {"blockwise8:1024", "ef+top-k:8,bf16"}) {
    const TemporaryFolder folder;
    const LogServer server({.listen = "127.0.0.1:0", .folder = folder.path() / "log"});
    constexpr int rounds = 8;
    AveragingProcess a(folder.path(), server.url(), "a", rounds, 2, codec);
    AveragingProcess b(folder.path(), server.url(), "b", rounds, 2, codec);
    wait_for_round(server.url(), 2);
    AveragingProcess c(folder.path(), server.url(), "c", rounds, 2, "bf16");
    EXPECT_EQ(c.wait(), 1);
    EXPECT_EQ(a.wait(), 0);
    EXPECT_EQ(b.wait(), 0);
    EXPECT_THAT(a.weights(), HasSubstr("has weights"));
    EXPECT_EQ(b.weights(), a.weights());
    const core::JobState state = state_of(server.url());
    EXPECT_EQ(state.genesis->codec, codec);
    EXPECT_EQ(state.ignored, 0);
    for (const Ledger::Round& round : state.ledger.rounds()) EXPECT_TRUE(round.applied) << round.round;
  }
}

TEST(AveragingPeer, of_a_codec_that_there_is_not_says_which_there_are) {
  const TemporaryFolder folder;
  const LogServer server({.listen = "127.0.0.1:0", .folder = folder.path() / "log"});
  RemoteLog log(server.url());
  AveragingOptions options;
  options.genesis = {.job = "one", .parameters = 10, .piece = 4, .codec = "zip"};
  options.net.name = "a";
  options.net.listen = "127.0.0.1:0";
  options.net.plain_loopback = true;
  try {
    const AveragingPeer peer(options, log, log);
    ADD_FAILURE() << "it is a peer";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no 'zip'"));
    EXPECT_THAT(error.what(), HasSubstr("blockwise8"));
  }
}

TEST(AveragingPeer, goes_on_when_the_log_server_was_killed_and_started_again) {
  const TemporaryFolder folder;
  auto server = std::make_unique<LogServer>(LogServerOptions{.listen = "127.0.0.1:0", .folder = folder.path() / "log"});
  const std::string url = server->url();
  constexpr int rounds = 12;
  AveragingProcess a(folder.path(), url, "a", rounds, 2);
  AveragingProcess b(folder.path(), url, "b", rounds, 2);
  wait_for_round(url, 2);
  server.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  server = std::make_unique<LogServer>(
      LogServerOptions{.listen = url.substr(std::string("http://").size()), .folder = folder.path() / "log"});
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
  EXPECT_EQ(b.weights(), a.weights());
  EXPECT_GE(state_of(url).round(), rounds);
}

TEST(AveragingPeer, of_another_job_is_refused_by_name) {
  const TemporaryFolder folder;
  const LogServer server({.listen = "127.0.0.1:0", .folder = folder.path() / "log"});
  RemoteLog log(server.url());
  AveragingOptions options = loopback_options("a");
  AveragingPeer first(options, log, log);
  EXPECT_EQ(first.enter(), 0);
  options.net.name = "b";
  options.genesis.seed = 7;
  RemoteLog other(server.url());
  AveragingPeer second(options, other, other);
  try {
    static_cast<void>(second.enter());
    ADD_FAILURE() << "it takes part";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("another seed"));
  }
}

TEST(AveragingPeer, that_comes_when_all_who_have_the_weights_are_gone_gives_up_and_says_so) {
  const TemporaryFolder folder;
  const LogServer server({.listen = "127.0.0.1:0", .folder = folder.path() / "log"});
  RemoteLog log(server.url());
  AveragingOptions options;
  options.genesis = {.job = "one", .parameters = 10, .piece = 4};
  options.net.name = "a";
  options.net.listen = "127.0.0.1:0";
  options.net.plain_loopback = true;
  options.deadlines.suspect = 0.5;
  options.deadlines.beat = 0.1;
  options.deadlines.join = 1;
  {
    AveragingPeer first(options, log, log);
    ASSERT_EQ(first.enter(), 0);
    std::vector<std::int64_t> indices;
    while (const auto index = first.next()) {
      indices.push_back(*index);
      first.computed();
    }
    std::vector<float> sum(10, 1);
    first.contribute(sum, 1, 1, indices);
    first.result(sum);
    ASSERT_EQ(first.enter(), 1);
    first.leave("a test");
  }
  options.net.name = "b";
  AveragingPeer second(options, log, log);
  try {
    static_cast<void>(second.enter());
    ADD_FAILURE() << "nobody has the weights";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("for the weights after round 1, which nobody has who is heard"));
    EXPECT_THAT(error.what(), HasSubstr("fix: start a peer that can reach one; reef-swarm replay"));
  }
}

TEST(AveragingPeer, that_waits_for_the_first_members_says_who_is_there_and_ends) {
  const TemporaryFolder folder;
  const LogServer server({.listen = "127.0.0.1:0", .folder = folder.path() / "log"});
  RemoteLog log(server.url());
  AveragingOptions options = loopback_options("b");
  options.first_members = 3;
  options.deadlines.start = 0;
  AveragingPeer other(options, log, log);
  while (other.waits_for().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  options.deadlines.start = 2;
  options.net.name = "a";
  AveragingPeer peer(options, log, log);
  try {
    static_cast<void>(peer.enter());
    ADD_FAILURE() << "there are two of three";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the first round waits for 3 peers, and after 2 s there are a/"));
    EXPECT_THAT(error.what(), HasSubstr("fix: start them"));
  }
}

TEST(AveragingPeer, that_waits_is_ended_by_interrupt) {
  const TemporaryFolder folder;
  const LogServer server({.listen = "127.0.0.1:0", .folder = folder.path() / "log"});
  RemoteLog log(server.url());
  AveragingOptions options = loopback_options("a");
  options.first_members = 2;
  options.deadlines.job = 2 * options.deadlines.round;  // of which nothing is over before a round begins
  AveragingPeer peer(options, log, log);
  std::thread waits([&] {
    try {
      static_cast<void>(peer.enter());
      ADD_FAILURE() << "there is no other member";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("was interrupted"));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_THAT(peer.waits_for(), HasSubstr("to be heard"));
  peer.interrupt();
  waits.join();
}

}  // namespace
}  // namespace reef::swarm
