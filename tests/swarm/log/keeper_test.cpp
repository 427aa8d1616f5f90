// Keepers: an etcd each, and before it a server that peers reach.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <laws/decision_log.hpp>
#include <laws/presence.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/detail/http_client.hpp>
#include <reef/swarm/log/detail/own_process.hpp>
#include <reef/swarm/log/keeper.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <support/keepers.hpp>
#include <support/two_logs.hpp>

namespace reef::test {

/// One keeper, of a job of its own.
struct KeeperCase : TwoLogs<swarm::RemoteLog> {
  KeeperCase() {
    if (!missing().empty()) return;
    cluster = std::make_unique<KeeperCluster>(1, true);
    EXPECT_TRUE(cluster->answers()) << cluster->at(0).why_ended();
    first = cluster->client("a");
    second = cluster->client("b");
  }
  static std::string missing() { return why_no_etcd(); }
  ~KeeperCase() { close(); }

  std::unique_ptr<KeeperCluster> cluster;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Keeper, DecisionLogLaws, testing::Types<KeeperCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(Keeper, PresenceLaws, testing::Types<KeeperCase>);

namespace {

using swarm::BlockingLog;
using swarm::Keeper;
using swarm::RemoteLog;

std::string kept_entry(const std::string& author, std::uint64_t nonce) {
  return swarm::to_text(swarm::Entry{{author, 7}, nonce, swarm::Quarantine{{}, "a test"}});
}

bool becomes_true(const std::function<bool()>& so) {
  const auto begin = std::chrono::steady_clock::now();
  while (!so() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(100))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return so();
}

TEST(Keeper, entries_outlast_each_keeper_in_turn_and_none_is_lost_or_doubled) {
  if (!why_no_etcd().empty()) GTEST_SKIP() << why_no_etcd();
  KeeperCluster cluster(3);
  ASSERT_TRUE(cluster.answers());
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> wins = 0;
  std::vector<std::pair<swarm::LogIndex, std::string>> won;
  std::mutex mutex;
  const auto appender = [&](const std::string& name) {
    const auto client = cluster.chained(name);
    BlockingLog blocking(client->log);
    std::uint64_t nonce = 0;
    for (swarm::LogIndex at = 0; !stop;) {
      const std::string entry = kept_entry(name, nonce);
      const swarm::Appended answer = blocking.append(at, entry);
      ASSERT_NE(answer.outcome, AppendOutcome::early) << answer.why;
      if (answer.outcome == AppendOutcome::unknown) continue;  // the same again
      if (answer.outcome == AppendOutcome::won) {
        const std::lock_guard lock(mutex);
        won.emplace_back(at, entry);
        ++nonce;
        ++wins;
      }
      ++at;
    }
  };
  const auto reader = cluster.chained("operator", 60);
  WatchedEntries watched;
  const swarm::LogWatch watch = reader->log.watch(0, watched.found());
  std::thread a(appender, "a");
  std::thread b(appender, "b");
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    std::uint64_t next = wins + 10;
    EXPECT_TRUE(becomes_true([&] { return wins >= next; })) << "before " << i << " ends";
    cluster.end(i);
    next = wins + 10;
    EXPECT_TRUE(becomes_true([&] { return wins >= next; })) << "without " << i;
    cluster.start(i);
  }
  stop = true;
  a.join();
  b.join();
  const std::vector<std::string> all = BlockingLog(reader->log).read(0);
  for (const auto& [at, entry] : won) {
    ASSERT_LT(at, all.size()) << "an entry that was won is lost";
    EXPECT_EQ(all[at], entry) << "two have won " << at;
  }
  EXPECT_TRUE(becomes_true([&] { return watched.seen().size() >= all.size(); }));
  const auto seen = watched.seen();
  ASSERT_EQ(seen.size(), all.size());
  for (std::size_t at = 0; at < seen.size(); ++at) EXPECT_EQ(seen[at], std::make_pair(swarm::LogIndex{at}, all[at]));
}

TEST(Keeper, etcd_answers_keepers_alone) {
  if (!why_no_etcd().empty()) GTEST_SKIP() << why_no_etcd();
  TemporaryFolder folder;
  swarm::Keys keys = swarm::Keys::make(folder / "keys", "job");
  keys.issue("keeper", "k");
  keys.issue("peer", "a", {.hosts = {"127.0.0.1"}});
  EXPECT_THROW(keys.issue("peer", "b", {.hosts = {"Keeper.REEF"}}), OptionError);
  const std::uint16_t port = free_port();
  const std::uint16_t peer_port = free_port();
  swarm::KeeperOptions options;
  options.members = {concat("k=127.0.0.1:", peer_port)};
  options.folder = folder / "etcd";
  options.tls = keys.files("k");
  swarm::Keys own = swarm::Keys::make(folder / "own", "job");
  own.issue("keeper", "k");
  swarm::detail::OwnProcess etcd(
      "/usr/bin/etcd", swarm::detail::etcd_flags(options, {"job", "keeper", "k"}, port, own.files("k")),
      folder / "etcd.txt");
  const auto page = [&](const std::string& scheme, const swarm::TlsFiles& tls, Seconds time) {
    swarm::EtcdLog log({.keepers = {concat(scheme, "://127.0.0.1:", port)}, .job = "job", .time = time, .tls = tls});
    return BlockingLog(log).page(0);
  };
  const swarm::LogPage first = page("https", own.files("k"), 30);
  EXPECT_TRUE(first.answered) << first.why << etcd.why_ended();
  EXPECT_FALSE(page("https", keys.files("k"), 1).answered) << "another keeper's certificate";
  EXPECT_FALSE(page("https", keys.files("a"), 1).answered) << "a peer's certificate";
  EXPECT_FALSE(page("http", {}, 1).answered);
  // The port at which etcds find each other asks for the same.
  const auto version = [&](const std::string& name) {
    std::atomic<int> status = -1;
    swarm::detail::HttpClient client({{"127.0.0.1", peer_port, true}}, keys.files(name));
    swarm::detail::HttpRequest request;
    request.target = "/version";
    request.time = 1;
    client.request(request, [&](const swarm::detail::HttpAnswer& answer) { status = answer.status; });
    EXPECT_TRUE(becomes_true([&] { return status >= 0; }));
    return status.load();
  };
  EXPECT_EQ(version("k"), 200);
  EXPECT_EQ(version("a"), 0);
}

TEST(Keeper, ends_its_etcd_and_goes_on_where_it_ended) {
  if (!why_no_etcd().empty()) GTEST_SKIP() << why_no_etcd();
  KeeperCluster cluster(1);
  ASSERT_TRUE(cluster.answers());
  const auto a = cluster.chained("a");
  EXPECT_EQ(BlockingLog(a->log).append(0, kept_entry("a", 1)).outcome, AppendOutcome::won);
  cluster.end(0);
  cluster.start(0);  // the same folder, which etcd locks
  EXPECT_EQ(BlockingLog(a->log).read(0), std::vector<std::string>{kept_entry("a", 1)});
  EXPECT_EQ(cluster.at(0).why_ended(), "");
}

TEST(Keeper, without_a_majority_an_append_is_unknown_and_a_forged_one_is_refused) {
  if (!why_no_etcd().empty()) GTEST_SKIP() << why_no_etcd();
  KeeperCluster cluster(3);
  ASSERT_TRUE(cluster.answers());
  const auto a = cluster.chained("a", 4);
  const swarm::Appended forged = BlockingLog(a->log).append(0, kept_entry("b", 1));
  EXPECT_EQ(forged.outcome, AppendOutcome::unknown);
  EXPECT_NE(forged.why.find("403"), std::string::npos) << forged.why;
  cluster.end(0);
  cluster.end(1);
  EXPECT_EQ(BlockingLog(a->log).append(0, kept_entry("a", 1)).outcome, AppendOutcome::unknown);
  cluster.start(1);
  const auto patient = cluster.chained("a", 60);
  EXPECT_EQ(BlockingLog(patient->log).append(0, kept_entry("a", 1)).outcome, AppendOutcome::won);
  EXPECT_EQ(BlockingLog(patient->log).read(0), std::vector<std::string>{kept_entry("a", 1)});
}

TEST(Keeper, options_that_cannot_be_are_refused) {
  TemporaryFolder folder;
  swarm::Keys keys = swarm::Keys::make(folder / "keys", "job");
  keys.issue("keeper", "k");
  keys.issue("peer", "a");
  swarm::KeeperOptions good;
  good.members = {"k=127.0.0.1:7001", "l=127.0.0.1:7002"};
  good.folder = folder / "keeper";
  good.tls = keys.files("k");
  good.etcd = "/bin/true";
  const auto why = [](const swarm::KeeperOptions& options) {
    try {
      const Keeper keeper(options);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const auto with = [&](const std::function<void(swarm::KeeperOptions&)>& change) {
    swarm::KeeperOptions options = good;
    change(options);
    return why(options);
  };
  EXPECT_NE(with([](auto& o) { o.etcd = "no-such-etcd"; }).find("apt-get install etcd-server"), std::string::npos);
  EXPECT_NE(with([&](auto& o) { o.etcd = folder.path().string(); }).find("no program"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.members = {"l=127.0.0.1:7002"}; }).find("none of the members"), std::string::npos);
  for (const char* member : {"k", "k=", "=127.0.0.1:1", "k=127.0.0.1", "k=example.com:1", "k=127.0.0.1:1"})
    EXPECT_NE(with([&](auto& o) { o.members = {"k=127.0.0.1:1", member}; }), "") << member;
  EXPECT_NE(with([&](auto& o) { o.tls = keys.files("a"); }).find("none of the members"), std::string::npos);
  EXPECT_NE(with([&](auto& o) {
              o.tls = keys.files("a");
              o.members = {"a=127.0.0.1:7001"};
            }).find("--role keeper"),
            std::string::npos);
  Keeper ends(good);
  EXPECT_TRUE(becomes_true([&] { return !ends.why_ended().empty(); })) << "an etcd that ends by itself is told of";
  EXPECT_NE(ends.why_ended().find("status 0"), std::string::npos) << ends.why_ended();
}

TEST(OwnProcess, ends_with_its_object_even_where_it_does_not_want_to) {
  TemporaryFolder folder;
  ::pid_t id = 0;
  {
    const swarm::detail::OwnProcess process("/bin/sh", {"-c", "trap '' TERM; echo on; while :; do sleep 0.1; done"},
                                            folder / "out");
    id = process.id();
    EXPECT_TRUE(becomes_true([&] { return std::filesystem::exists(folder / "out") && ::kill(id, 0) == 0; }));
  }
  EXPECT_EQ(::kill(id, 0), -1) << "it has been waited for";
  EXPECT_THROW(swarm::detail::OwnProcess("/bin/true", {}, folder / "none" / "out"), Error);
}

}  // namespace
}  // namespace reef::test
