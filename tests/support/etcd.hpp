#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/etcd_log.hpp>

#include "free_port.hpp"
#include "temporary_folder.hpp"

namespace reef::test {

/// Returns why no etcd can be started here; empty where one can.
inline std::string why_no_etcd() {
  return ::access("/usr/bin/etcd", X_OK) == 0 ? "" : "there is no /usr/bin/etcd: apt-get install etcd-server";
}

/// Members of an etcd cluster, processes of this one with ports and folders of their own, which end with it.
class EtcdCluster {
public:
  explicit EtcdCluster(std::size_t members) {
    for (std::size_t i = 0; i < members; ++i) members_.push_back({free_port(), free_port(), 0});
    for (std::size_t i = 0; i < members; ++i) start(i);
  }
  ~EtcdCluster() {
    for (std::size_t i = 0; i < members_.size(); ++i) kill(i);
  }
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  void start(std::size_t i) {
    Member& one = members_[i];
    std::string cluster;
    for (std::size_t k = 0; k < members_.size(); ++k)
      cluster += (k == 0 ? "" : ",") + name_of(k) + "=" + http(members_[k].peer_port);
    const std::vector<std::string> words{
        "/usr/bin/etcd", "--name", name_of(i), "--data-dir", (folder_ / name_of(i)).string(),
        "--listen-client-urls", http(one.port), "--advertise-client-urls", http(one.port),
        "--listen-peer-urls", http(one.peer_port), "--initial-advertise-peer-urls", http(one.peer_port),
        "--initial-cluster", cluster, "--initial-cluster-state", "new",
        "--heartbeat-interval", "100", "--election-timeout", "1000", "--logger", "zap", "--log-outputs", "stderr"};
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const std::string output = (folder_ / (name_of(i) + ".txt")).string();
    one.process = ::fork();
    if (one.process < 0) throw std::runtime_error("cannot fork");
    if (one.process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(file, STDOUT_FILENO);
      ::dup2(file, STDERR_FILENO);
      ::execv(arguments.front(), arguments.data());
      ::_exit(127);
    }
  }

  void kill(std::size_t i, int signal = SIGKILL) {
    if (members_[i].process == 0) return;
    ::kill(members_[i].process, signal);
    ::waitpid(members_[i].process, nullptr, 0);
    members_[i].process = 0;
  }
  void stop(std::size_t i) const { ::kill(members_[i].process, SIGSTOP); }
  void go_on(std::size_t i) const { ::kill(members_[i].process, SIGCONT); }

  [[nodiscard]] std::size_t size() const { return members_.size(); }
  [[nodiscard]] std::string url(std::size_t i) const { return http(members_[i].port); }
  [[nodiscard]] std::vector<std::string> urls() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < members_.size(); ++i) all.push_back(url(i));
    return all;
  }

  /// Waits until the cluster answers; false where it does not for a minute.
  [[nodiscard]] bool answers() const {
    swarm::EtcdLog log({.keepers = urls(), .job = "is-it-up", .time = 1});
    for (int i = 0; i < 60; ++i)
      if (swarm::BlockingLog(log).page(0).answered) return true;
    return false;
  }

private:
  struct Member {
    std::uint16_t port;
    std::uint16_t peer_port;
    ::pid_t process;
  };

  static std::string name_of(std::size_t i) { return "keeper-" + std::to_string(i); }
  static std::string http(std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); }

  TemporaryFolder folder_;
  std::vector<Member> members_;
};

}  // namespace reef::test
