// reef-swarm serve and generate as a user runs them: the text is that of reef-generate, also where a server is killed.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>

#include "support/temporary_folder.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns whether it has become so, in five minutes at most.
template <class F>
bool becomes_true(const F& so) {
  for (int tries = 0; tries < 15000; ++tries) {
    if (so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

/// A process in the background, whose outputs go to files: killed at the end of this object.
class TextProcess {
public:
  TextProcess(const std::filesystem::path& place, const std::string& command) : place_(place) {
    const std::string line = concat("exec ", command, " > '", place.string(), ".out' 2> '", place.string(), ".err'");
    process_ = ::fork();
    if (process_ == 0) {
      ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
  }
  ~TextProcess() {
    if (process_ < 0) return;
    signal(SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  TextProcess(const TextProcess&) = delete;
  TextProcess& operator=(const TextProcess&) = delete;

  void signal(int number) const { ::kill(process_, number); }
  [[nodiscard]] std::string out() const { return whole_file(place_.string() + ".out"); }
  [[nodiscard]] std::string err() const { return whole_file(place_.string() + ".err"); }

  /// Returns the exit status; -1 after a signal, or where the process does not end in five minutes.
  int wait() {
    int status = 0;
    if (!becomes_true([&] { return ::waitpid(process_, &status, WNOHANG) == process_; })) return -1;
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

private:
  std::filesystem::path place_;
  ::pid_t process_ = -1;
};

class ServedText : public testing::Test {
protected:
  ServedText() {
    log_ = std::make_unique<TextProcess>(
        folder_ / "log",
        concat(REEF_SWARM, " log-server --listen 127.0.0.1:0 --dir '", (folder_ / "store").string(), "'"));
    EXPECT_TRUE(becomes_true([&] { return log_->out().ends_with("\n"); })) << log_->err();
    std::istringstream(log_->out()) >> port_;
  }

  [[nodiscard]] std::string common(const std::string& command) const {
    return concat(REEF_SWARM, " ", command, " --log http://127.0.0.1:", port_,
                  " --plain-loopback --threads 1 --model '", model_, "'");
  }
  [[nodiscard]] std::unique_ptr<TextProcess> serve(const std::string& name, const std::string& blocks,
                                                   const std::string& options = "") const {
    auto server = std::make_unique<TextProcess>(
        folder_ / name, concat(common("serve"), " --name ", name, " --blocks ", blocks, " --positions 8192 ", options));
    EXPECT_TRUE(becomes_true([&] { return server->err().find(" serves blocks ") != std::string::npos; }))
        << server->err();
    return server;
  }
  /// Servers of which each block has two; which of them are the quickest the machine decides.
  [[nodiscard]] std::map<std::string, std::unique_ptr<TextProcess>> serve_twice(const std::string& options) const {
    std::map<std::string, std::unique_ptr<TextProcess>> servers;
    servers["a"] = serve("a", "0:2", options);
    servers["b"] = serve("b", "0:1", options);
    servers["c"] = serve("c", "1:2", options);
    return servers;
  }
  /// The server of block 0 that a client has told of last.
  static std::string first_server(const std::string& told) {
    const std::size_t begin = told.find(") ", told.rfind(": [0, ")) + 2;
    return told.substr(begin, told.find('/', begin) - begin);
  }
  /// What reef-generate answers to the same options.
  [[nodiscard]] std::string alone(const std::string& options) const {
    TextProcess process(folder_ / "alone", concat(REEF_GENERATE, " --threads 1 --model '", model_, "' ", options));
    EXPECT_EQ(process.wait(), 0) << process.err();
    return process.out();
  }

  /// Of two blocks, and of texts of any length.
  const std::string model_ = concat(REEF_TEST_DATA, "/bloom_alibi");
  TemporaryFolder folder_;
  std::unique_ptr<TextProcess> log_;
  int port_ = 0;
};

constexpr const char* text_options = "--tokens '5 17 30 3' --new 40 --temperature 0.9 --seed 7 --json";

TEST_F(ServedText, is_that_of_one_machine) {
  const auto a = serve("a", "0:1");
  const auto b = serve("b", "1:2");
  for (const std::string options : {text_options, "--tokens '5 17' --tokens 9 --new 8 --temperature 0"}) {
    TextProcess client(folder_ / "client", concat(common("generate"), " ", options));
    EXPECT_EQ(client.wait(), 0) << client.err();
    EXPECT_EQ(client.out(), alone(options));
    EXPECT_THAT(client.err(), HasSubstr("done, with 0 repairs"));
  }
}

/// With the options of a client that are not of the text itself.
class KilledText : public ServedText, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Drafts, KilledText, testing::Values("", "--draft ngram"));

TEST_P(KilledText, is_the_same_where_a_server_is_killed_in_the_middle) {
  const auto servers = serve_twice("");
  const std::string options = "--tokens '5 17 30 3' --new 3000 --temperature 0.9 --seed 7";
  TextProcess client(folder_ / "client", concat(common("generate"), " ", options, " ", GetParam()));
  EXPECT_TRUE(becomes_true([&] { return client.out().size() > 60; })) << client.err();
  client.signal(SIGSTOP);
  EXPECT_FALSE(client.out().ends_with("\n")) << "the text was over before the server was killed";
  servers.at(first_server(client.err()))->signal(SIGKILL);
  client.signal(SIGCONT);
  EXPECT_EQ(client.wait(), 0) << client.err();
  EXPECT_EQ(client.out(), alone(options));
  EXPECT_THAT(client.err(), HasSubstr("is lost"));
}

TEST_F(ServedText, is_the_same_where_a_server_drains_in_the_middle_which_is_no_failure) {
  const auto servers = serve_twice("--drain 1000");
  const std::string options = "--tokens '5 17 30 3' --new 1500 --temperature 0.9 --seed 7";
  TextProcess client(folder_ / "client", concat(common("generate"), " ", options));
  EXPECT_TRUE(becomes_true([&] { return client.out().size() > 60; })) << client.err();
  client.signal(SIGSTOP);
  EXPECT_FALSE(client.out().ends_with("\n")) << "the text was over before the server drained";
  const std::string name = first_server(client.err());
  TextProcess& server = *servers.at(name);
  server.signal(SIGTERM);
  EXPECT_TRUE(becomes_true([&] { return server.err().find(" drains: 1 sessions") != std::string::npos; }))
      << server.err();
  // So the client, which looks twice a second, looks at once when it goes on, and the store says what it is to see.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  client.signal(SIGCONT);
  EXPECT_EQ(server.wait(), 0) << server.err();
  EXPECT_TRUE(server.err().ends_with(name + " ends after a signal\n")) << server.err();
  EXPECT_EQ(client.wait(), 0) << client.err();
  EXPECT_EQ(client.out(), alone(options));
  EXPECT_THAT(client.err(), HasSubstr("ends soon"));
  EXPECT_THAT(client.err(), HasSubstr("done, with 0 repairs and "));
}

TEST_F(ServedText, ends_a_drain_at_its_deadline_where_nobody_else_has_the_blocks) {
  const auto a = serve("a", "0:2", "--drain 0.5");
  TextProcess client(folder_ / "client",
                     concat(common("generate"), " --tokens '5 17 30 3' --new 3000 --temperature 0.9 --seed 7"));
  EXPECT_TRUE(becomes_true([&] { return client.out().size() > 60; })) << client.err();
  client.signal(SIGSTOP);
  a->signal(SIGTERM);
  EXPECT_EQ(a->wait(), 0) << a->err();
  EXPECT_THAT(a->err(), HasSubstr("a ends after a signal, with 1 sessions"));
}

TEST_F(ServedText, has_the_beams_of_one_machine_where_a_server_is_killed_in_the_middle) {
  const auto servers = serve_twice("");
  const std::string options = "--tokens '5 17 30 3' --new 800 --beams 3 --length-penalty 0.7 --ignore-eos --json";
  TextProcess client(folder_ / "client", concat(common("generate"), " ", options));
  EXPECT_TRUE(becomes_true([&] { return client.err().find(": blocks [0, 2): [0, ") != std::string::npos; }))
      << client.err();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // most often beams have parted
  client.signal(SIGSTOP);
  EXPECT_EQ(client.out(), "") << "the search was over before the server was killed";
  servers.at(first_server(client.err()))->signal(SIGKILL);
  client.signal(SIGCONT);
  EXPECT_EQ(client.wait(), 0) << client.err();
  EXPECT_EQ(client.out(), alone(options));
  EXPECT_THAT(client.err(), HasSubstr("is lost"));
  const std::string several = "--tokens '5 17' --tokens 9 --new 8 --beams 4";
  TextProcess other(folder_ / "other", concat(common("generate"), " ", several));
  EXPECT_EQ(other.wait(), 0) << other.err();
  EXPECT_EQ(other.out(), alone(several));
}

TEST_F(ServedText, with_a_draft_tells_the_same_of_it_as_one_machine) {
  const auto a = serve("a", "0:2");
  // A draft of n-grams, and the model itself as one that is always right.
  for (const std::string& draft : {std::string("ngram"), concat("'", model_, "'")}) {
    const std::string options = concat("--tokens '5 17 30 5 17' --tokens 9 --new 20 --temperature 0.4 --json --draft ",
                                       draft, " --draft-tokens 4");
    TextProcess client(folder_ / "client", concat(common("generate"), " ", options));
    EXPECT_EQ(client.wait(), 0) << client.err();
    EXPECT_EQ(client.out(), alone(options));
    EXPECT_THAT(client.out(), HasSubstr("\"draft\":{\"accepted\":"));
    EXPECT_THAT(client.err(), HasSubstr(" tokens accepted, in "));
  }
}

}  // namespace
}  // namespace reef::test
