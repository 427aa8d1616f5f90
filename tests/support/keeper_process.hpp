#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/swarm/log/keeper.hpp>
#include <reef/swarm/net/keys.hpp>

#include "etcd.hpp"
#include "free_port.hpp"
#include "temporary_folder.hpp"

// The test that a keeper's process runs: this program anew, with that test alone.
TEST(KeeperProgram, DISABLED_serves) {
  if (std::getenv("REEF_TEST_KEEPER") == nullptr) GTEST_SKIP() << "what KeeperProcesses runs";
  const reef::swarm::Keys keys(std::getenv("REEF_TEST_KEYS"));
  reef::swarm::KeeperOptions options;
  options.listen = std::getenv("REEF_TEST_LISTEN");
  options.folder = std::getenv("REEF_TEST_FOLDER");
  options.tls = keys.files(std::getenv("REEF_TEST_KEEPER"));
  options.keys = std::getenv("REEF_TEST_KEYS");
  options.rate = 1000;
  const std::string members = std::getenv("REEF_TEST_MEMBERS");
  for (std::size_t at = 0; at < members.size();) {
    const std::size_t end = std::min(members.find(',', at), members.size());
    options.members.push_back(members.substr(at, end - at));
    at = end + 1;
  }
  std::ofstream out(std::getenv("REEF_TEST_OUT"), std::ios::app);
  EXPECT_EQ(reef::swarm::serve_keeper(options, out), 0);
}

namespace reef::test {

/// Keepers of a job of their own, a process each, which can be killed, with its etcd, and started again. Some peers and
/// the client `operator` have certificates.
class KeeperProcesses {
public:
  KeeperProcesses(std::size_t count, const std::string& job, const std::vector<std::string>& peers)
      : keys(swarm::Keys::make(keys_folder(), job)), processes_(count) {
    for (const std::string& peer : peers) keys.issue("peer", peer);
    keys.issue("client", "operator");
    for (std::size_t i = 0; i < count; ++i) {
      keys.issue("keeper", name_of(i));
      listen_.push_back(concat("127.0.0.1:", free_port()));
      members_ += concat(i == 0 ? "" : ",", name_of(i), "=127.0.0.1:", free_port());
    }
    for (std::size_t i = 0; i < count; ++i) start(i);
  }
  ~KeeperProcesses() {
    for (std::size_t i = 0; i < processes_.size(); ++i) kill(i);
  }
  KeeperProcesses(const KeeperProcesses&) = delete;
  KeeperProcesses& operator=(const KeeperProcesses&) = delete;

  void start(std::size_t i) {
    // What runs between fork and exec must not allocate.
    std::vector<std::string> words{"/proc/self/exe", "--gtest_filter=KeeperProgram.DISABLED_serves",
                                   "--gtest_also_run_disabled_tests"};
    std::vector<std::string> settings{
        "REEF_TEST_KEEPER=" + name_of(i), "REEF_TEST_KEYS=" + keys_folder().string(), "REEF_TEST_LISTEN=" + listen_[i],
        "REEF_TEST_FOLDER=" + (folder_ / name_of(i)).string(), "REEF_TEST_MEMBERS=" + members_,
        "REEF_TEST_OUT=" + (folder_ / (name_of(i) + ".out")).string()};
    for (char** one = environ; *one != nullptr; ++one) settings.emplace_back(*one);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (std::string& text : texts) all.push_back(text.data());
      all.push_back(nullptr);
      return all;
    };
    const std::vector<char*> arguments = pointers(words);
    const std::vector<char*> environment = pointers(settings);
    const std::string text = (folder_ / (name_of(i) + ".txt")).string();
    const int file = ::open(text.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    processes_[i] = ::fork();
    ASSERT_GE(processes_[i], 0);
    if (processes_[i] == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(file, STDOUT_FILENO);
      ::dup2(file, STDERR_FILENO);
      for (int open = 3; open < 1024; ++open) ::close(open);
      ::execve(arguments.front(), arguments.data(), environment.data());
      ::_exit(127);
    }
    ::close(file);
  }

  /// Kills a keeper by SIGKILL; its etcd ends with it.
  void kill(std::size_t i) {
    if (processes_[i] <= 0) return;
    ::kill(processes_[i], SIGKILL);
    ::waitpid(processes_[i], nullptr, 0);
    processes_[i] = 0;
  }

  [[nodiscard]] bool runs(std::size_t i) const { return processes_[i] > 0; }
  [[nodiscard]] std::size_t size() const { return processes_.size(); }
  [[nodiscard]] std::string url(std::size_t i) const { return "https://" + listen_[i]; }
  [[nodiscard]] std::vector<std::string> urls() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < size(); ++i) all.push_back(url(i));
    return all;
  }
  [[nodiscard]] std::filesystem::path keys_folder() const { return folder_.path() / "keys"; }

private:
  static std::string name_of(std::size_t i) { return concat("keeper-", i); }

  TemporaryFolder folder_;

public:
  swarm::Keys keys;

private:
  std::vector<::pid_t> processes_;
  std::vector<std::string> listen_;
  std::string members_;
};

}  // namespace reef::test
