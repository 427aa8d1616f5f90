// A log's server and its clients over mutual TLS: who gets what.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <laws/decision_log.hpp>
#include <laws/presence.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/detail/log_rules.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/keys.hpp>
#include <support/temporary_folder.hpp>
#include <support/two_logs.hpp>

namespace reef::test {

/// A CA of one job, which all cases share.
class JobKeys {
public:
  JobKeys() : keys(swarm::Keys::make(folder / "keys", "job")) {
    keys.issue("keeper", "keeper");
    keys.issue("peer", "a");
    keys.issue("peer", "b");
    keys.issue("client", "operator");
  }

  static JobKeys& of_all() {
    static JobKeys made;
    return made;
  }

  TemporaryFolder folder;
  swarm::Keys keys;
};

struct TlsLogCase : TwoLogs<swarm::RemoteLog> {
  TlsLogCase() {
    first = client("a");
    second = client("b");
  }
  ~TlsLogCase() { close(); }
  static swarm::TlsFiles files(const std::string& name) { return JobKeys::of_all().keys.files(name); }
  [[nodiscard]] std::unique_ptr<swarm::RemoteLog> client(const std::string& name) const {
    return std::make_unique<swarm::RemoteLog>(
        swarm::RemoteLogOptions{.servers = {server.url()}, .tls = files(name), .time = 20});
  }

  TemporaryFolder folder;
  swarm::LogServer server{{.folder = folder / "log", .tls = files("keeper"), .rate = 1000, .any_text = true}};
};

INSTANTIATE_TYPED_TEST_SUITE_P(TlsLog, DecisionLogLaws, testing::Types<TlsLogCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(TlsLog, PresenceLaws, testing::Types<TlsLogCase>);

namespace {

using swarm::AppendOutcome;
using swarm::BlockingLog;
using swarm::ChainedLog;
using swarm::LogServer;
using swarm::RemoteLog;

std::string genesis_text(const std::string& author, const std::string& job = "job") {
  swarm::Genesis genesis;
  genesis.job = job;
  genesis.recipe = "averaged";
  genesis.parameters = genesis.piece = 4096;
  return swarm::to_text(swarm::Entry{{author, 7}, 1, genesis});
}

std::string rollback_text(const std::string& author) {
  return swarm::to_text(swarm::Entry{{author, 7}, 1, swarm::Rollback{0, "a test"}});
}

class TlsLog : public testing::Test {
protected:
  [[nodiscard]] std::unique_ptr<RemoteLog> client(const swarm::TlsFiles& files, Seconds time = 10) const {
    return std::make_unique<RemoteLog>(
        swarm::RemoteLogOptions{.servers = {server.url()}, .tls = files, .time = time});
  }
  [[nodiscard]] std::unique_ptr<RemoteLog> client(const std::string& name) const { return client(keys().files(name)); }
  static swarm::Keys& keys() { return JobKeys::of_all().keys; }
  static std::string why_present(RemoteLog& log, const std::string& key) {
    std::string why = "?";
    std::atomic<bool> done = false;
    log.present(key, "{}", 3, [&](std::string_view said) {
      why = said;
      done = true;
    });
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return why;
  }

  /// Expects that a client gets no answer, and returns why.
  [[nodiscard]] std::string expect_nothing(const swarm::TlsFiles& files) const {
    const auto log = client(files, 0.3);
    const swarm::Appended appended = BlockingLog(*log).append(0, genesis_text("a"));
    EXPECT_EQ(appended.outcome, AppendOutcome::unknown);
    const swarm::LogPage page = BlockingLog(*log).page(0);
    EXPECT_FALSE(page.answered);
    return page.why;
  }

  TemporaryFolder folder;
  LogServer server{{.folder = folder / "log", .tls = keys().files("keeper")}};
};

TEST_F(TlsLog, strangers_get_nothing_and_the_others_notice_nothing) {
  swarm::Keys foreign = swarm::Keys::make(folder / "foreign", "job");
  foreign.issue("peer", "a");
  keys().issue("peer", "old", {.begins = -std::chrono::hours(48), .lasts = std::chrono::hours(24)});
  keys().issue("peer", "gone");
  const auto good = client("a");
  const swarm::TlsFiles gone = keys().files("gone");
  const auto revoked = client("gone");
  EXPECT_TRUE(BlockingLog(*revoked).page(0).answered) << "not revoked yet";
  keys().revoke("gone");
  server.set_revoked(keys().revoked());

  EXPECT_NE(expect_nothing(foreign.files("a")).find("certificate"), std::string::npos);
  EXPECT_NE(expect_nothing(keys().files("old")).find("expired"), std::string::npos);
  EXPECT_NE(expect_nothing(gone).find("revoked"), std::string::npos);
  EXPECT_FALSE(BlockingLog(*revoked).page(0).answered) << "its connection has ended";
  // Plain HTTP on this port ends in the handshake.
  RemoteLog plain("http://127.0.0.1:" + std::to_string(server.port()), 0.3);
  EXPECT_FALSE(BlockingLog(plain).page(0).answered);

  ChainedLog chained(*good, {.tls = keys().files("a")});
  EXPECT_EQ(BlockingLog(chained).append(0, genesis_text("a")).outcome, AppendOutcome::won);
  EXPECT_EQ(BlockingLog(chained).read(0), std::vector<std::string>{genesis_text("a")});
}

TEST_F(TlsLog, a_client_asks_keepers_of_its_job_alone) {
  const TemporaryFolder other;
  const std::string refused = [&] {
    try {
      const LogServer peer({.folder = other / "log", .tls = keys().files("a")});
      return std::string();
    } catch (const OptionError& error) {
      return std::string(error.what());
    }
  }();
  EXPECT_NE(refused.find("--role keeper"), std::string::npos) << refused;
  swarm::Keys foreign = swarm::Keys::make(other / "foreign", "job");
  foreign.issue("keeper", "keeper");
  const LogServer server_of_others({.folder = other / "log", .tls = foreign.files("keeper")});
  RemoteLog log({.servers = {server_of_others.url()}, .tls = keys().files("a"), .time = 0.3});
  const swarm::LogPage page = BlockingLog(log).page(0);
  EXPECT_FALSE(page.answered);
  EXPECT_NE(page.why.find("its certificate is refused"), std::string::npos) << page.why;
}

TEST_F(TlsLog, entries_are_those_of_the_owner_of_the_certificate) {
  const auto remote_a = client("a");
  const auto remote_operator = client("operator");
  ChainedLog a(*remote_a, {.tls = keys().files("a")});
  ChainedLog by_operator(*remote_operator, {.tls = keys().files("operator")});
  const auto write = [](ChainedLog& log, const std::string& text) { return BlockingLog(log).append(0, text); };
  const swarm::Appended forged = write(a, genesis_text("b"));
  EXPECT_EQ(forged.outcome, AppendOutcome::unknown);
  EXPECT_NE(forged.why.find("403"), std::string::npos) << forged.why;
  EXPECT_NE(write(a, genesis_text("a", "another")).why.find("another"), std::string::npos);
  EXPECT_NE(write(a, "{\"kind\":\"view\"}").why.find("no entry"), std::string::npos);
  EXPECT_NE(write(a, "x").why.find("no entry"), std::string::npos);
  EXPECT_NE(write(by_operator, genesis_text("operator")).why.find("rollbacks alone"), std::string::npos);
  EXPECT_TRUE(BlockingLog(by_operator).read(0).empty()) << "what was refused changed nothing, and a client may read";
  EXPECT_EQ(write(a, genesis_text("a")).outcome, AppendOutcome::won);
  EXPECT_EQ(BlockingLog(by_operator).append(1, rollback_text("operator")).outcome, AppendOutcome::won);
  EXPECT_EQ(BlockingLog(a).read(0).size(), 2U);
}

TEST_F(TlsLog, presences_are_those_of_the_owner_of_the_certificate) {
  const auto a = client("a");
  EXPECT_EQ(why_present(*a, "a/7"), "");
  EXPECT_EQ(why_present(*a, "a"), "");
  for (const std::string key : {"b/7", "ab", "/a", "b"}) {
    const std::string why = why_present(*a, key);
    EXPECT_NE(why.find("403"), std::string::npos) << key << why;
  }
  const auto by_operator = client("operator");
  EXPECT_NE(why_present(*by_operator, "operator").find("403"), std::string::npos);
}

TEST_F(TlsLog, who_asks_too_often_waits_and_the_others_do_not) {
  const TemporaryFolder other;
  const LogServer slow({.folder = other / "log", .tls = keys().files("keeper"), .rate = 5});
  RemoteLog greedy({.servers = {slow.url()}, .tls = keys().files("a"), .time = 0.05});
  int refused = 0;
  for (int i = 0; i < 60 && refused == 0; ++i) {
    const swarm::LogPage page = BlockingLog(greedy).page(0);
    if (!page.answered && page.why.find("asks too often") != std::string::npos) ++refused;
  }
  EXPECT_EQ(refused, 1);
  RemoteLog patient({.servers = {slow.url()}, .tls = keys().files("a"), .time = 30});
  EXPECT_TRUE(BlockingLog(patient).page(0).answered) << "asked again until there is room";
  RemoteLog other_peer({.servers = {slow.url()}, .tls = keys().files("b"), .time = 30});
  EXPECT_TRUE(BlockingLog(other_peer).page(0).answered);
}

TEST_F(TlsLog, a_server_that_is_gone_is_left_for_another) {
  const auto with = [&](const std::string& first, const std::string& second) {
    RemoteLog log({.servers = {first, second}, .tls = keys().files("a"), .time = 20});
    return BlockingLog(log).page(0).answered;
  };
  EXPECT_TRUE(with("https://127.0.0.1:1", server.url()));
  EXPECT_TRUE(with(server.url(), "https://127.0.0.1:1"));
}

TEST_F(TlsLog, options_that_cannot_be_are_refused) {
  EXPECT_THROW(RemoteLog({.servers = {}}), OptionError);
  EXPECT_THROW(RemoteLog({.servers = {"https://127.0.0.1:1"}}), OptionError) << "without files";
  EXPECT_THROW(RemoteLog({.servers = {"https://example.com:1"}, .tls = keys().files("a")}), OptionError) << "a name";
  EXPECT_THROW(RemoteLog({.servers = {server.url(), "http://10.0.0.1:1"}, .tls = keys().files("a")}), OptionError);
  const TemporaryFolder other;
  EXPECT_THROW(LogServer({.listen = "example.com:0", .folder = other / "log", .tls = keys().files("keeper")}),
               OptionError);
  const LogServer everywhere({.listen = "0.0.0.0:0", .folder = other / "log", .tls = keys().files("keeper")});
  RemoteLog log({.servers = {"https://127.0.0.1:" + std::to_string(everywhere.port())}, .tls = keys().files("a")});
  EXPECT_TRUE(BlockingLog(log).page(0).answered) << "with TLS a server listens where it is told to";
}

TEST(LogRules, a_rate_is_of_each_name_and_comes_back) {
  swarm::detail::RequestRate rate(2);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(rate.take("a", 1)) << i;
  EXPECT_FALSE(rate.take("a", 1));
  EXPECT_TRUE(rate.take("b", 1));
  EXPECT_FALSE(rate.take("a", 1.4));
  EXPECT_TRUE(rate.take("a", 1.6));
  EXPECT_FALSE(rate.take("a", 1.6));
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(rate.take("a", 1e9)) << "at most four seconds' worth";
  EXPECT_FALSE(rate.take("a", 1e9));
}

TEST(LogRules, a_certificate_of_another_job_or_of_a_keeper_writes_nothing) {
  using swarm::detail::why_not_append;
  using swarm::detail::why_not_present;
  EXPECT_EQ(why_not_append({"job", "peer", "a"}, "job", genesis_text("a")), "");
  EXPECT_NE(why_not_append({"other", "peer", "a"}, "job", genesis_text("a")), "");
  EXPECT_NE(why_not_append({"job", "keeper", "a"}, "job", genesis_text("a")), "");
  EXPECT_NE(why_not_append({}, "job", genesis_text("a")), "");
  EXPECT_NE(why_not_present({"job", "keeper", "a"}, "a"), "");
  EXPECT_NE(why_not_present({}, ""), "");
}

}  // namespace
}  // namespace reef::test
