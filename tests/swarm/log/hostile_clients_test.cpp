// Clients that are strangers, expired, revoked, malformed, stalling or enormous, at a log server and at a keeper: such
// clients get nothing, and a peer that appends meanwhile notices nothing.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/detail/log_rules.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/keys.hpp>
#include <support/keeper_process.hpp>
#include <support/keepers.hpp>
#include <support/raw_connection.hpp>
#include <support/raw_tls.hpp>
#include <support/temporary_folder.hpp>

namespace reef::test {
namespace {

using swarm::BlockingLog;
using swarm::Keys;
using swarm::RemoteLog;

std::string quarantine_text(const std::string& author, std::uint64_t nonce) {
  return swarm::to_text(swarm::Entry{{author, 7}, nonce, swarm::Quarantine{{}, "a test"}});
}

std::string post_of(const std::string& body) {
  return concat("POST /v1/append HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ",
                body.size(), "\r\n\r\n", body);
}

/// A peer that appends one entry after the other, as long as it lives.
class SteadyAppender {
public:
  SteadyAppender(const std::string& url, const swarm::TlsFiles& files)
      : client_({.servers = {url}, .tls = files, .time = 60}), thread_([this] { run(); }) {}
  ~SteadyAppender() {
    stop_ = true;
    thread_.join();
  }

  /// Waits until ten more entries are decided, or fails after long.
  void expect_progress(const std::string& beside) {
    const std::uint64_t goal = won_ + 10;
    const auto begin = std::chrono::steady_clock::now();
    while (won_ < goal && std::chrono::steady_clock::now() - begin < std::chrono::seconds(100))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GE(won_, goal) << "beside " << beside;
  }
  [[nodiscard]] std::uint64_t won() const { return won_; }

private:
  void run() {
    BlockingLog blocking(client_.log);
    while (!stop_) {
      const swarm::Appended answer = blocking.append(won_, quarantine_text("a", won_));
      if (answer.outcome == swarm::AppendOutcome::unknown) continue;  // the same again
      EXPECT_EQ(answer.outcome, swarm::AppendOutcome::won) << answer.why;
      ++won_;
    }
  }

  ChainedClient client_;
  std::atomic<std::uint64_t> won_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// A server that is reached over TLS, and its job's keys.
struct Served {
  Keys& keys;
  std::uint16_t port;
  std::function<void()> publish_revoked;
  std::function<std::vector<std::string>()> entries;

  [[nodiscard]] std::string url() const { return concat("https://127.0.0.1:", port); }
};

/// Expects that a client whose certificate is refused reads no byte of HTTP.
void expect_nothing(const Served& served, const swarm::TlsFiles& files, const std::string& who) {
  RawTls client(served.port, files);
  static_cast<void>(client.shake_hands());
  client.send("GET /v1/entries HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_EQ(client.all(), "") << who;
}

void refuse_certificates(const Served& served, SteadyAppender& good) {
  const TemporaryFolder folder;
  Keys foreign = Keys::make(folder / "foreign", "job");
  foreign.issue("peer", "a");
  swarm::TlsFiles stranger = foreign.files("a");
  stranger.authority = served.keys.files("a").authority;
  expect_nothing(served, stranger, "a stranger");
  served.keys.issue("peer", "old", {.begins = -std::chrono::hours(48), .lasts = std::chrono::hours(24)});
  expect_nothing(served, served.keys.files("old"), "an expired certificate");
  served.keys.issue("peer", "gone");
  RawTls open(served.port, served.keys.files("gone"));
  ASSERT_TRUE(open.shake_hands());
  served.keys.revoke("gone");
  served.publish_revoked();
  EXPECT_EQ(open.all(), "") << "a connection of a revoked certificate ends";
  expect_nothing(served, served.keys.files("gone"), "a revoked certificate");
  const RawConnection plain(served.port);
  plain.send("GET /v1/entries HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_EQ(plain.all().find("entries"), std::string::npos) << "plain HTTP";
  good.expect_progress("certificates that are refused");
}

void refuse_malformed(const Served& served, SteadyAppender& good) {
  for (const std::string& bytes :
       {std::string("\0\1\2 nonsense\r\n\r\n", 16), std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("POST /v1/append HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("POST /v1/append HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), post_of("{"),
        post_of(R"({"at":0,"entry":5})"), post_of(R"({"at":0,"entry":"{}"})"), post_of(std::string(100000, '['))}) {
    RawTls client(served.port, served.keys.files("b"));
    ASSERT_TRUE(client.shake_hands());
    client.send(bytes);
    client.send("GET /v1/none HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    const std::string answer = client.all();
    EXPECT_EQ(answer.find("\"won\""), std::string::npos) << bytes << answer;
    EXPECT_EQ(answer.rfind("HTTP/1.1 4", 0), 0U) << bytes << answer;
  }
  // Records that are damaged end their connection alone.
  RawTls damaged(served.port, served.keys.files("b"));
  ASSERT_TRUE(damaged.shake_hands());
  damaged.put(std::vector<std::byte>(1000, std::byte{23}));
  EXPECT_EQ(damaged.all(), "");
  good.expect_progress("malformed requests");
}

void refuse_enormous(const Served& served, SteadyAppender& good) {
  const std::string head = "GET /v1/entries HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  std::string flood = head;
  for (int i = 0; i < 20000; ++i) flood += concat("X-", i, ": ", std::string(40, 'x'), "\r\n");
  for (const std::string& bytes :
       {flood, head + "X: " + std::string(2'000'000, 'x'), std::string(2'000'000, 'G'),
        std::string("POST /v1/append HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                    "Content-Length: 99999999999\r\n\r\n"),
        post_of(std::string(600 * 1024, ' '))}) {
    RawTls client(served.port, served.keys.files("b"));
    ASSERT_TRUE(client.shake_hands());
    client.send(bytes);
    const std::string answer = client.all();
    EXPECT_TRUE(answer.empty() || answer.rfind("HTTP/1.1 4", 0) == 0) << answer.substr(0, 200);
  }
  good.expect_progress("enormous requests");
}

/// Begins handshakes and requests that never end, from strangers and from a peer. Returns the connections.
std::vector<std::unique_ptr<RawTls>> stall(const Served& served, SteadyAppender& good) {
  std::vector<std::unique_ptr<RawTls>> stalling;
  const swarm::TlsFiles files = served.keys.files("b");
  for (int i = 0; i < 8; ++i) {
    stalling.push_back(std::make_unique<RawTls>(served.port, files));
    RawTls& client = *stalling.back();
    if (i % 2 == 0) {
      const std::vector<std::byte> hello = client.first_bytes();
      for (std::size_t k = 0; k < 20; ++k) {
        client.put(std::span(hello).subspan(k, 1));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } else {
      EXPECT_TRUE(client.shake_hands());
      for (const char byte : std::string("POST /v1/append HTT")) {
        client.send(std::string(1, byte));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  good.expect_progress("clients that stall");
  return stalling;
}

/// Opens far more connections from this address than the server has places for.
void flood(const Served& served, SteadyAppender& good) {
  std::vector<std::unique_ptr<RawConnection>> open;
  for (int i = 0; i < 2000; ++i) {
    if (open.size() >= 200) open.erase(open.begin());
    open.push_back(std::make_unique<RawConnection>(served.port));
    if (i % 500 == 499) good.expect_progress("a flood of connections");
  }
  open.clear();
  // A peer with a certificate is one of many as well.
  std::vector<std::unique_ptr<RawTls>> known;
  for (int i = 0; i < 140; ++i) {
    known.push_back(std::make_unique<RawTls>(served.port, served.keys.files("b")));
    static_cast<void>(known.back()->shake_hands());
  }
  EXPECT_EQ(known.back()->all(), "") << "more than half of all connections are not of one name";
  good.expect_progress("a flood of a peer's connections");
  RemoteLog late({.servers = {served.url()}, .tls = served.keys.files("operator"), .time = 60});
  EXPECT_TRUE(BlockingLog(late).page(0).answered) << "who comes meanwhile finds a place";
}

void bear_all(const Served& served, const std::function<void(std::vector<std::unique_ptr<RawTls>>&)>& after) {
  std::uint64_t won = 0;
  {
    SteadyAppender good(served.url(), served.keys.files("a"));
    good.expect_progress("nobody");
    auto stalling = stall(served, good);
    refuse_certificates(served, good);
    refuse_malformed(served, good);
    refuse_enormous(served, good);
    flood(served, good);
    after(stalling);
    good.expect_progress("all of them");
    won = good.won();
  }
  const std::vector<std::string> entries = served.entries();
  ASSERT_GE(entries.size(), won);
  for (std::uint64_t at = 0; at < entries.size(); ++at) EXPECT_EQ(entries[at], quarantine_text("a", at));
}

std::vector<std::string> all_entries(const std::string& url, const swarm::TlsFiles& files) {
  ChainedClient client({.servers = {url}, .tls = files, .time = 60});
  return BlockingLog(client.log).read(0);
}

TEST(HostileClients, get_nothing_of_a_log_server_and_disturb_nobody) {
  const TemporaryFolder folder;
  Keys keys = Keys::make(folder / "keys", "job");
  keys.issue("keeper", "keeper");
  for (const char* peer : {"a", "b"}) keys.issue("peer", peer);
  keys.issue("client", "operator");
  swarm::LogServer server(
      {.folder = folder / "log", .request_time = 3, .tls = keys.files("keeper"), .rate = 1e6});
  const Served served{keys, server.port(), [&] { server.set_revoked(keys.revoked()); },
                      [&] { return all_entries(server.url(), keys.files("operator")); }};
  bear_all(served, [](std::vector<std::unique_ptr<RawTls>>& stalling) {
    for (const auto& client : stalling) EXPECT_EQ(client->all().find("entries"), std::string::npos);
  });
}

TEST(HostileClients, get_nothing_of_a_keeper_and_disturb_nobody) {
  if (!why_no_etcd().empty()) GTEST_SKIP() << why_no_etcd();
  KeeperCluster cluster(1, false, 1e6);
  ASSERT_TRUE(cluster.answers());
  const Served served{cluster.keys, cluster.at(0).port(),
                      [&] { cluster.at(0).set_revoked(cluster.keys.revoked()); },
                      [&] { return all_entries(cluster.urls().front(), cluster.keys.files("operator")); }};
  bear_all(served, [](std::vector<std::unique_ptr<RawTls>>&) {});
}

TEST(HostileClients, a_damaged_list_of_what_is_revoked_ends_no_keeper) {
  if (!why_no_etcd().empty()) GTEST_SKIP() << why_no_etcd();
  KeeperProcesses keepers(1, "job", {"a", "b"});
  const auto answers = [&](const std::string& name, Seconds time) {
    RemoteLog log({.servers = keepers.urls(), .tls = keepers.keys.files(name), .time = time});
    return BlockingLog(log).page(0).answered;
  };
  ASSERT_TRUE(answers("a", 60));
  const std::filesystem::path list = keepers.keys_folder() / "keys.json";
  std::stringstream whole;
  whole << std::ifstream(list).rdbuf();
  std::ofstream(list, std::ios::trunc) << whole.str().substr(0, whole.str().size() / 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // more than two looks at the list
  EXPECT_TRUE(answers("b", 60));
  std::ofstream(list, std::ios::trunc) << whole.str();
  keepers.keys.revoke("b");
  // Until the list is read again b is answered.
  bool refused = false;
  for (int tries = 0; tries < 100 && !refused; ++tries) refused = !answers("b", 0.3);
  EXPECT_TRUE(refused) << "the list is followed again";
  EXPECT_TRUE(answers("a", 60));
}

TEST(LogRules, places_are_shared_and_nobody_has_more_than_half) {
  swarm::detail::Places places(5);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(places.take("x"));
  EXPECT_FALSE(places.take("x"));
  EXPECT_TRUE(places.take("y"));
  EXPECT_TRUE(places.take("z"));
  EXPECT_FALSE(places.take("y")) << "all are taken";
  places.leave("nobody");
  EXPECT_FALSE(places.take("y"));
  places.leave("x");
  EXPECT_TRUE(places.take("y"));
  EXPECT_TRUE(swarm::detail::Places(0).take("x")) << "one place there is always";
}

}  // namespace
}  // namespace reef::test
