#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <laws/decision_log.hpp>
#include <laws/presence.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/detail/base64.hpp>
#include <reef/swarm/log/etcd_log.hpp>
#include <support/etcd.hpp>
#include <support/two_logs.hpp>

namespace reef::test {

/// A job of its own at one keeper, which all cases share.
struct EtcdLogCase : TwoLogs<swarm::EtcdLog> {
  EtcdLogCase() {
    if (!missing().empty()) return;
    static const auto cluster = std::make_unique<EtcdCluster>(1);
    static const bool up = cluster->answers();
    EXPECT_TRUE(up) << "etcd does not answer";
    static int jobs = 0;
    const std::string job = "laws-" + std::to_string(jobs++);
    const swarm::EtcdLogOptions options{.keepers = cluster->urls(), .job = job, .time = 20};
    first = std::make_unique<swarm::EtcdLog>(options);
    second = std::make_unique<swarm::EtcdLog>(options);
  }
  static std::string missing() { return why_no_etcd(); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(EtcdLog, DecisionLogLaws, testing::Types<EtcdLogCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(EtcdLog, PresenceLaws, testing::Types<EtcdLogCase>);

namespace {

using swarm::BlockingLog;
using swarm::EtcdLog;

std::string etcd_entry(swarm::LogIndex at, int author) {
  return "{\"entry\":" + std::to_string(at) + ",\"author\":" + std::to_string(author) + "}";
}

bool comes_true(const std::function<bool()>& so) {
  const auto begin = std::chrono::steady_clock::now();
  while (!so() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(100))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return so();
}

/// Peers that each append at the end of one log, as fast as they can, and read on where they do not know.
class Appenders {
public:
  Appenders(const EtcdCluster& cluster, int count) : won_(static_cast<std::size_t>(count)) {
    for (int i = 0; i < count; ++i) {
      std::vector<std::string> urls = cluster.urls();
      std::rotate(urls.begin(), urls.begin() + i % static_cast<std::ptrdiff_t>(urls.size()), urls.end());
      threads_.emplace_back([this, i, urls] { run(i, urls); });
    }
  }
  ~Appenders() { end(); }
  Appenders(const Appenders&) = delete;
  Appenders& operator=(const Appenders&) = delete;

  void end() {
    stop_ = true;
    for (std::thread& one : threads_) one.join();
    threads_.clear();
  }
  [[nodiscard]] std::uint64_t wins() const { return wins_; }
  [[nodiscard]] std::uint64_t unknowns() const { return unknowns_; }

  /// The entries that each was told to have won. After end() alone.
  [[nodiscard]] const std::vector<std::vector<swarm::LogIndex>>& won() const { return won_; }

private:
  void run(int author, const std::vector<std::string>& urls) {
    EtcdLog log({.keepers = urls, .job = "appended", .time = 3});
    BlockingLog blocking(log);
    for (swarm::LogIndex at = 0; !stop_;) {
      const swarm::Appended answer = blocking.append(at, etcd_entry(at, author));
      switch (answer.outcome) {
        case AppendOutcome::won:
          won_[static_cast<std::size_t>(author)].push_back(at++);
          ++wins_;
          break;
        case AppendOutcome::lost: ++at; break;
        case AppendOutcome::early: ADD_FAILURE() << answer.why; return;
        case AppendOutcome::unknown: ++unknowns_; break;  // the same again
      }
    }
  }

  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> wins_ = 0;
  std::atomic<std::uint64_t> unknowns_ = 0;
  std::vector<std::vector<swarm::LogIndex>> won_;
  std::vector<std::thread> threads_;
};

/// Checks that the log is what the appenders were told.
void expect_all(EtcdLog& log, const Appenders& appenders, const WatchedEntries& watched) {
  const std::vector<std::string> all = BlockingLog(log).read(0);
  std::size_t wins = 0;
  for (std::size_t author = 0; author < appenders.won().size(); ++author) {
    for (const swarm::LogIndex at : appenders.won()[author]) {
      ASSERT_LT(at, all.size()) << "an entry that was won is lost";
      EXPECT_EQ(all[at], etcd_entry(at, static_cast<int>(author))) << "two have won one index";
      ++wins;
    }
  }
  // What was stopped in mid-append may stand though nobody was told.
  EXPECT_GE(all.size(), wins);
  EXPECT_LE(all.size(), wins + appenders.won().size());
  EXPECT_TRUE(comes_true([&] { return watched.seen().size() >= all.size(); }));
  const auto seen = watched.seen();
  ASSERT_EQ(seen.size(), all.size());
  for (std::size_t at = 0; at < seen.size(); ++at) ASSERT_EQ(seen[at], std::make_pair(swarm::LogIndex{at}, all[at]));
}

TEST(EtcdLog, loses_and_doubles_nothing_when_keepers_are_killed_in_mid_append) {
  if (!why_no_etcd().empty()) GTEST_SKIP() << why_no_etcd();
  EtcdCluster cluster(3);
  ASSERT_TRUE(cluster.answers());
  EtcdLog log({.keepers = cluster.urls(), .job = "appended", .time = 60});
  WatchedEntries watched;
  const swarm::LogWatch watch = log.watch(0, watched.found());
  Appenders appenders(cluster, 3);
  std::mt19937 random(13);  // NOLINT: the same moments in each run
  // Each keeper once: so the leader is among them, whichever it is.
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    const std::uint64_t wins = appenders.wins() + 20;
    ASSERT_TRUE(comes_true([&] { return appenders.wins() >= wins; })) << "before keeper " << i << " is killed";
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    cluster.kill(i);
    const std::uint64_t without = appenders.wins() + 20;
    ASSERT_TRUE(comes_true([&] { return appenders.wins() >= without; })) << "without keeper " << i;
    cluster.start(i);
  }
  appenders.end();
  expect_all(log, appenders, watched);
}

TEST(EtcdLog, goes_on_when_a_keeper_hangs_and_says_unknown_while_a_majority_does) {
  if (!why_no_etcd().empty()) GTEST_SKIP() << why_no_etcd();
  EtcdCluster cluster(3);
  ASSERT_TRUE(cluster.answers());
  EtcdLog log({.keepers = cluster.urls(), .job = "appended", .time = 60});
  WatchedEntries watched;
  const swarm::LogWatch watch = log.watch(0, watched.found());
  Appenders appenders(cluster, 2);
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    cluster.stop(i);
    const std::uint64_t wins = appenders.wins() + 5;
    EXPECT_TRUE(comes_true([&] { return appenders.wins() >= wins; })) << "while keeper " << i << " hangs";
    cluster.go_on(i);
  }
  cluster.stop(0);
  cluster.stop(1);
  const std::uint64_t unknowns = appenders.unknowns();
  EXPECT_TRUE(comes_true([&] { return appenders.unknowns() >= unknowns + 2; }));
  cluster.go_on(0);
  cluster.go_on(1);
  const std::uint64_t wins = appenders.wins() + 5;
  EXPECT_TRUE(comes_true([&] { return appenders.wins() >= wins; })) << "after the majority is back";
  appenders.end();
  expect_all(log, appenders, watched);
}

TEST(EtcdLog, says_unknown_where_no_keeper_answers) {
  EtcdLog log({.keepers = {"http://127.0.0.1:1", "http://127.0.0.1:2"}, .job = "j", .time = 0.2});
  const swarm::Appended answer = BlockingLog(log).append(0, "{}");
  EXPECT_EQ(answer.outcome, AppendOutcome::unknown);
  EXPECT_NE(answer.why.find("127.0.0.1"), std::string::npos) << answer.why;
  EXPECT_FALSE(BlockingLog(log).page(0).answered);
}

TEST(EtcdLog, refuses_options_that_it_cannot_use) {
  const std::string here = "http://127.0.0.1:2379";
  EXPECT_THROW(EtcdLog({.keepers = {}, .job = "j"}), OptionError);
  EXPECT_THROW(EtcdLog({.keepers = {here, "http://10.0.0.1:2379"}, .job = "j"}), OptionError);
  EXPECT_THROW(EtcdLog({.keepers = {"127.0.0.1:2379"}, .job = "j"}), OptionError);
  for (const std::string& job : {std::string(), std::string("a/b"), std::string("a b"), std::string(65, 'j')})
    EXPECT_THROW(EtcdLog({.keepers = {here}, .job = job}), OptionError) << job;
}

TEST(EtcdLog, refuses_answers_that_are_none) {
  using swarm::detail::base64_of;
  const std::string prefix = "/reef/j/log/";
  const auto range = [&](const std::string& key, const std::string& value) {
    return "{\"kvs\":[{\"key\":\"" + base64_of(key) + "\",\"value\":\"" + value + "\"}]}";
  };
  const std::string key_2 = prefix + "00000000000000000002";
  EXPECT_EQ(swarm::detail::decode_etcd_range(range(key_2, base64_of("e")), 2, prefix).entries,
            std::vector<std::string>{"e"});
  const std::string foreign = range("/other/00000000000000000002", "");
  for (const std::string& body : {std::string(), std::string("[]"), std::string("{\"kvs\":3}"), foreign,
                                  range(key_2, "x"), range(prefix + "2", ""), range(key_2 + "0", ""),
                                  std::string("{\"kvs\":[{}]}")})
    EXPECT_THROW((void)swarm::detail::decode_etcd_range(body, 2, prefix), DecodeError) << body;
  const swarm::LogPage gap = swarm::detail::decode_etcd_range(range(prefix + "00000000000000000003", ""), 2, prefix);
  EXPECT_TRUE(gap.damaged && !gap.answered) << "somebody has deleted from the log";
  EXPECT_NE(gap.why.find("the entry 2 is not there"), std::string::npos) << gap.why;
  for (const std::string& body : {std::string(), std::string("{}"), std::string("{\"succeeded\":1}"),
                                  std::string("{\"responses\":[{}]}")})
    EXPECT_THROW((void)swarm::detail::decode_etcd_append(body, 2, "e"), DecodeError) << body;
  const std::string lost = "{\"responses\":[{\"response_range\":" + range(key_2, base64_of("f")) + "}]}";
  EXPECT_EQ(swarm::detail::decode_etcd_append(lost, 2, "e").outcome, AppendOutcome::lost);
  EXPECT_EQ(swarm::detail::decode_etcd_append(lost, 2, "f").outcome, AppendOutcome::won);
  EXPECT_EQ(swarm::detail::decode_etcd_append("{\"responses\":[{\"response_range\":{}}]}", 2, "f").outcome,
            AppendOutcome::early);
  std::mt19937 random(5);  // NOLINT: the same bytes in each run
  for (int round = 0; round < 5000; ++round) {
    std::string body = lost;
    body[random() % body.size()] = static_cast<char>(random());
    body.resize(random() % 4 == 0 ? random() % body.size() : body.size());
    try {
      (void)swarm::detail::decode_etcd_append(body, 2, "e");
    } catch (const DecodeError&) {
    }
    try {
      (void)swarm::detail::decode_etcd_range(body.substr(body.size() < 33 ? 0 : 33), 2, prefix);
    } catch (const DecodeError&) {
    }
  }
}

TEST(Base64, is_that_of_its_source_and_refuses_what_is_none) {
  using swarm::detail::base64_of;
  using swarm::detail::bytes_of_base64;
  // RFC 4648, section 10.
  const std::vector<std::pair<std::string, std::string>> vectors{
      {"", ""},         {"f", "Zg=="},         {"fo", "Zm8="},         {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64_of(bytes), text);
    EXPECT_EQ(bytes_of_base64(text), bytes);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i * 7);
  for (std::size_t n = 0; n <= all.size(); ++n) EXPECT_EQ(bytes_of_base64(base64_of(all.substr(n))), all.substr(n));
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg=x", "Z===", "====", "Zm9=v", "Zg==Zg==", "Zm 9", "Zh==", "Zm9v\n", "Zm-_"})
    EXPECT_EQ(bytes_of_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace reef::test
