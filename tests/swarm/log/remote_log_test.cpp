#include <gtest/gtest.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <laws/decision_log.hpp>
#include <laws/presence.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <support/raw_connection.hpp>
#include <support/temporary_folder.hpp>
#include <support/two_logs.hpp>

namespace reef::test {

struct RemoteLogCase : TwoLogs<swarm::RemoteLog> {
  RemoteLogCase() {
    first = std::make_unique<swarm::RemoteLog>(server.url());
    second = std::make_unique<swarm::RemoteLog>(server.url());
  }
  ~RemoteLogCase() { close(); }

  TemporaryFolder folder;
  swarm::LogServer server{{.folder = folder / "log"}};
};

INSTANTIATE_TYPED_TEST_SUITE_P(RemoteLog, DecisionLogLaws, testing::Types<RemoteLogCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(RemoteLog, PresenceLaws, testing::Types<RemoteLogCase>);

namespace {

using swarm::BlockingLog;
using swarm::LogServer;
using swarm::RemoteLog;

std::string http_post(const std::string& path, const std::string& body,
                      const std::string& head = "Host: 127.0.0.1\r\nContent-Type: application/json\r\n") {
  return "POST " + path + " HTTP/1.1\r\n" + head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string answer_of(const LogServer& server, const std::string& bytes) {
  const RawConnection connection(server.port());
  connection.send(bytes);
  return connection.rest();
}

bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(LogServer, listens_on_addresses_of_this_machine_alone) {
  const TemporaryFolder folder;
  for (const char* listen : {"0.0.0.0:0", "10.1.2.3:0", "[::]:0", "example.com:80"}) {
    const std::string error = refusal_of([&] { LogServer({.listen = listen, .folder = folder / "log"}); });
    EXPECT_NE(error.find("keepers over TLS"), std::string::npos) << error;
    const std::string url = std::string("http://") + listen;
    EXPECT_NE(refusal_of([&] { RemoteLog log(url); }).find("keepers over TLS"), std::string::npos) << url;
  }
  for (const char* listen : {"127.0.0.1", "127.0.0.1:x", ":1", "::1:1", "127.0.0.1:70000", ""}) {
    EXPECT_NE(refusal_of([&] { LogServer({.listen = listen, .folder = folder / "log"}); }).find("no address"),
              std::string::npos)
        << listen;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "log")) << "a refused address makes no log";
  const LogServer server({.listen = "localhost:0", .folder = folder / "log"});
  const std::string taken = refusal_of(
      [&] { LogServer({.listen = "127.0.0.1:" + std::to_string(server.port()), .folder = folder / "other"}); });
  EXPECT_NE(taken.find("cannot listen"), std::string::npos) << taken;
  for (const char* url : {"https://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1", "http://127.0.0.1:1/x"})
    EXPECT_THROW(RemoteLog{url}, OptionError) << url;
}

TEST(LogServer, refuses_what_is_no_request_of_a_client) {
  const TemporaryFolder folder;
  const LogServer server({.folder = folder / "log"});
  const std::string host = "Host: 127.0.0.1\r\n";
  EXPECT_TRUE(begins(answer_of(server, "nonsense\r\n\r\n"), "HTTP/1.1 400"));
  EXPECT_TRUE(begins(answer_of(server, "GET / HTTP/9.9\r\n\r\n"), "HTTP/1.1 400"));
  EXPECT_TRUE(begins(answer_of(server, "GET /v1/entries HTTP/1.1\r\n\r\n"), "HTTP/1.1 403"));
  EXPECT_TRUE(begins(answer_of(server, "GET /v1/entries HTTP/1.1\r\nHost: evil.example:80\r\n\r\n"), "HTTP/1.1 403"));
  EXPECT_TRUE(begins(answer_of(server, "GET /v1/other HTTP/1.1\r\n" + host + "\r\n"), "HTTP/1.1 404"));
  EXPECT_TRUE(begins(answer_of(server, "DELETE /v1/entries HTTP/1.1\r\n" + host + "\r\n"), "HTTP/1.1 405"));
  EXPECT_TRUE(begins(answer_of(server, "GET /v1/entries?from=x HTTP/1.1\r\n" + host + "\r\n"), "HTTP/1.1 400"));
  EXPECT_TRUE(begins(answer_of(server, "GET /v1/entries?from=0&wait=-1 HTTP/1.1\r\n" + host + "\r\n"), "HTTP/1.1 400"));
  EXPECT_TRUE(begins(answer_of(server, http_post("/v1/append", "{}", host)), "HTTP/1.1 415"));
  EXPECT_TRUE(begins(answer_of(server, http_post("/v1/append", std::string(600 * 1024, ' '))), "HTTP/1.1 413"));
  const std::string head = "GET / HTTP/1.1\r\nX: " + std::string(20000, 'x') + "\r\n\r\n";
  EXPECT_TRUE(begins(answer_of(server, head), "HTTP/1.1 413"));
  for (const std::string body :
       {"", "{", "[]", "{}", "{\"at\":-1,\"entry\":\"x\"}", "{\"at\":0}", "{\"at\":0,\"entry\":\"\"}",
        "{\"at\":0,\"entry\":{}}", "{\"at\":0,\"at\":0,\"entry\":\"x\"}", "{\"at\":0,\"entry\":\"\xFF\"}",
        "[[[[[[[[[[]]]]]]]]]]", "{\"at\":99999999999999999999,\"entry\":\"x\"}"}) {
    const std::string answer = answer_of(server, http_post("/v1/append", body));
    EXPECT_TRUE(begins(answer, "HTTP/1.1 400")) << body << answer;
    EXPECT_NE(answer.find("fix: "), std::string::npos) << answer;
  }
  for (const std::string body : {"{\"key\":\"\",\"value\":\"\",\"ttl\":3}", "{\"key\":\"a\",\"value\":\"\",\"ttl\":0}",
                                 "{\"key\":\"a\",\"value\":\"\",\"ttl\":1e9}", "{\"key\":1,\"value\":\"\",\"ttl\":3}"})
    EXPECT_TRUE(begins(answer_of(server, http_post("/v1/present", body)), "HTTP/1.1 400")) << body;
  RemoteLog log(server.url());
  EXPECT_TRUE(BlockingLog(log).read(0).empty()) << "what was refused changed nothing";
}

TEST(LogServer, bears_damaged_requests) {
  const TemporaryFolder folder;
  const LogServer server({.folder = folder / "log", .request_time = 2});
  std::mt19937 random(3);  // NOLINT: the same bytes in each run
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string whole = http_post("/v1/append", "{\"at\":5,\"entry\":\"{\\\"kind\\\":\\\"view\\\"}\"}");
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole;
    for (std::size_t i = 0; i <= below(3); ++i) {
      switch (below(3)) {
        case 0: bytes[below(bytes.size())] = static_cast<char>(below(256)); break;
        case 1: bytes.resize(1 + below(bytes.size())); break;
        default: bytes.insert(below(bytes.size()), std::string(1 + below(40), static_cast<char>(below(256))));
      }
    }
    const std::string answer = answer_of(server, bytes);
    EXPECT_TRUE(answer.empty() || begins(answer, "HTTP/1.1 ")) << answer;
    EXPECT_EQ(answer.find("\"won\""), std::string::npos) << bytes << answer;  // 5 is early
  }
  RemoteLog log(server.url());
  EXPECT_EQ(BlockingLog(log).append(0, "{}").outcome, AppendOutcome::won);
}

TEST(LogServer, serves_others_while_a_client_is_slow_and_drops_it) {
  const TemporaryFolder folder;
  const LogServer server({.folder = folder / "log", .request_time = 1});
  const RawConnection slow(server.port());
  slow.send("POST /v1/append HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le");
  RemoteLog log(server.url());
  for (swarm::LogIndex at = 0; at < 5; ++at)
    EXPECT_EQ(BlockingLog(log).append(at, std::string(60000, 'x')).outcome, AppendOutcome::won);
  const RawConnection greedy(server.port());  // asks for much, and takes none of it
  for (int i = 0; i < 40; ++i) greedy.send("GET /v1/entries?from=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_EQ(BlockingLog(log).append(5, "{}").outcome, AppendOutcome::won);
  EXPECT_EQ(slow.until("never"), "") << "dropped without an answer";
}

TEST(LogServer, refuses_connections_above_its_number) {
  const TemporaryFolder folder;
  const LogServer server({.folder = folder / "log", .connections = 3});
  std::vector<std::unique_ptr<RawConnection>> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(std::make_unique<RawConnection>(server.port()));
    held.back()->send("GET /v1/entries HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    EXPECT_TRUE(begins(held.back()->until("\"from\""), "HTTP/1.1 200"));
  }
  const RawConnection above(server.port());
  EXPECT_TRUE(begins(above.until("never"), "HTTP/1.1 503"));
  held.clear();
  RemoteLog log(server.url());
  EXPECT_EQ(BlockingLog(log).append(0, "{}").outcome, AppendOutcome::won) << "tried again until there is room";
}

TEST(RemoteLog, says_unknown_where_nobody_answers) {
  RemoteLog log("http://127.0.0.1:1", 0.2);
  const swarm::Appended answer = BlockingLog(log).append(0, "{}");
  EXPECT_EQ(answer.outcome, AppendOutcome::unknown);
  EXPECT_NE(answer.why.find("127.0.0.1:1"), std::string::npos) << answer.why;
  const swarm::LogPage page = BlockingLog(log).page(0);
  EXPECT_FALSE(page.answered);
  EXPECT_NE(page.why.find("fix: "), std::string::npos) << page.why;
}

TEST(RemoteLog, refuses_answers_that_are_none) {
  for (const char* body : {"", "{}", "[]", "{\"outcome\":\"yes\"}", "{\"outcome\":\"lost\"}", "{\"outcome\":\"early\"}",
                           "{\"outcome\":3}", "{\"outcome\":\"won\""})
    EXPECT_THROW((void)swarm::detail::decode_appended(body), DecodeError) << body;
  for (const char* body : {"", "{}", "{\"from\":1,\"entries\":[]}", "{\"from\":2,\"entries\":[3]}", "{\"from\":2}"})
    EXPECT_THROW((void)swarm::detail::decode_page(body, 2), DecodeError) << body;
  for (const char* body : {"", "{}", "{\"presences\":{}}", "{\"presences\":[{}]}", "{\"presences\":[{\"key\":\"a\"}]}"})
    EXPECT_THROW((void)swarm::detail::decode_presences(body), DecodeError) << body;
  std::mt19937 random(5);  // NOLINT: the same bytes in each run
  const std::string whole = "{\"from\":2,\"entries\":[\"{\\\"a\\\":1}\",\"b\"],\"outcome\":\"lost\",\"other\":\"x\"}";
  for (int round = 0; round < 5000; ++round) {
    std::string body = whole;
    body[random() % body.size()] = static_cast<char>(random());
    body.resize(random() % 4 == 0 ? random() % body.size() : body.size());
    for (const auto& decode : std::vector<std::function<void()>>{
             [&] { (void)swarm::detail::decode_page(body, 2); }, [&] { (void)swarm::detail::decode_appended(body); },
             [&] { (void)swarm::detail::decode_presences(body); }}) {
      try {
        decode();
      } catch (const DecodeError&) {
      }
    }
  }
}

TEST(LogServerProgram, DISABLED_serves) {
  if (std::getenv("REEF_TEST_OUT") == nullptr) GTEST_SKIP() << "what ServerProcess runs";
  std::ofstream out(std::getenv("REEF_TEST_OUT"));
  const swarm::LogServerOptions options{
      .listen = std::getenv("REEF_TEST_LISTEN"), .folder = std::getenv("REEF_TEST_FOLDER"), .patience = 20};
  EXPECT_EQ(swarm::serve_log(options, out), 0);
}

/// A log server in a process of its own, which can be killed and started again at the same port.
class ServerProcess {
public:
  explicit ServerProcess(std::filesystem::path folder) : folder_(std::move(folder)) { start(); }
  ~ServerProcess() {
    if (process_ > 0) end(SIGKILL);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  void start() {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    // This program anew, with one test: what runs between fork and exec must not allocate.
    const std::string filter = "--gtest_filter=LogServerProgram.DISABLED_serves";
    std::vector<std::string> words{"/proc/self/exe", filter, "--gtest_also_run_disabled_tests"};
    std::vector<std::string> settings{"REEF_TEST_LISTEN=127.0.0.1:" + port_, "REEF_TEST_FOLDER=" + folder_.string(),
                                      "REEF_TEST_OUT=/dev/fd/" + std::to_string(ends[1])};
    for (char** one = environ; *one != nullptr; ++one) settings.emplace_back(*one);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (std::string& text : texts) all.push_back(text.data());
      all.push_back(nullptr);
      return all;
    };
    const std::vector<char*> arguments = pointers(words);
    const std::vector<char*> environment = pointers(settings);
    const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    process_ = ::fork();
    ASSERT_GE(process_, 0);
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      ::dup2(nothing, STDOUT_FILENO);
      ::execve(arguments.front(), arguments.data(), environment.data());
      ::_exit(127);
    }
    ::close(nothing);
    ::close(ends[1]);
    std::string line;
    for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(ends[0]);
    port_ = line;
  }
  int end(int signal) {
    EXPECT_EQ(::kill(process_, signal), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(process_, &status, 0), process_);
    process_ = 0;
    return status;
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + port_; }

private:
  std::filesystem::path folder_;
  std::string port_ = "0";
  ::pid_t process_ = 0;
};

TEST(LogServer, as_a_program_prints_its_port_and_ends_in_order_when_it_is_asked_to) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TemporaryFolder folder;
    ServerProcess server(folder / "log");
    {
      RemoteLog log(server.url());
      EXPECT_EQ(BlockingLog(log).append(0, "{}").outcome, AppendOutcome::won);
    }
    const int status = server.end(signal);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_FALSE(std::filesystem::exists(folder / "log" / "reef.lock")) << "the lock is removed at the end";
  }
}

TEST(LogServer, that_is_killed_and_started_again_loses_nothing_and_its_clients_go_on) {
  const TemporaryFolder folder;
  ServerProcess server(folder / "log");
  RemoteLog log(server.url(), 30);
  RemoteLog watching(server.url());
  WatchedEntries watched;
  const swarm::LogWatch watch = watching.watch(0, watched.found());
  std::atomic<swarm::LogIndex> won = 0;
  std::atomic<bool> stop = false;
  const auto entry = [](swarm::LogIndex at) { return "{\"entry\":" + std::to_string(at) + "}"; };
  std::thread appender([&] {
    for (swarm::LogIndex at = 0; !stop;) {
      const swarm::Appended answer = BlockingLog(log).append(at, entry(at));
      EXPECT_NE(answer.outcome, AppendOutcome::lost) << answer.other;
      EXPECT_NE(answer.outcome, AppendOutcome::early) << answer.why;
      if (answer.outcome == AppendOutcome::won) won = ++at;
    }
  });
  const auto reach = [&](swarm::LogIndex more) {
    const auto begin = std::chrono::steady_clock::now();
    while (won < more && std::chrono::steady_clock::now() - begin < std::chrono::seconds(100))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GE(won, more) << "the client does not go on";
  };
  std::mt19937 random(9);  // NOLINT: the same moments in each run
  for (int round = 0; round < 6; ++round) {
    reach(won + 5 + random() % 20);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    server.end(SIGKILL);
    server.start();
  }
  reach(won + 5);
  stop = true;
  appender.join();
  const std::vector<std::string> all = BlockingLog(log).read(0);
  EXPECT_GE(all.size(), won);
  for (swarm::LogIndex at = 0; at < all.size(); ++at) ASSERT_EQ(all[at], entry(at));
  const auto begin = std::chrono::steady_clock::now();
  while (watched.seen().size() < all.size() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto seen = watched.seen();
  ASSERT_EQ(seen.size(), all.size());
  for (swarm::LogIndex at = 0; at < seen.size(); ++at) ASSERT_EQ(seen[at], std::make_pair(at, entry(at)));
}

}  // namespace
}  // namespace reef::test
