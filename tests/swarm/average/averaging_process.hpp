#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/core/job_summary.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/remote_log.hpp>

namespace reef::swarm::test {

/// A process of the program swarm-average, whose output is in a file of `folder`.
class AveragingProcess {
public:
  AveragingProcess(const std::filesystem::path& folder, const std::string& url, const std::string& name, int rounds,
                   int members, const std::string& codec = "fp32", const std::string& keys = {},
                   const std::string& checkpoints = {})
      : output_(folder / (name + "." + std::to_string(started++) + ".txt")) {
    const std::string count = std::to_string(rounds);
    const std::string first = std::to_string(members);
    pid_ = fork();
    if (pid_ == 0) {
      // It must not keep a log server's port in use that is to start again.
      for (int file = 3; file < 1024; ++file) close(file);
      if (std::freopen(output_.c_str(), "w", stdout) == nullptr) _exit(126);
      execl(REEF_SWARM_AVERAGE, REEF_SWARM_AVERAGE, url.c_str(), name.c_str(), count.c_str(), first.c_str(), "30",
            codec.c_str(), keys.empty() && checkpoints.empty() ? nullptr : keys.c_str(),
            checkpoints.empty() ? nullptr : checkpoints.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
  }
  ~AveragingProcess() {
    if (pid_ > 0) kill();
  }
  AveragingProcess(AveragingProcess&& other) noexcept
      : output_(std::move(other.output_)), pid_(std::exchange(other.pid_, 0)) {}
  AveragingProcess& operator=(AveragingProcess&&) = delete;

  void kill() {
    signal(SIGKILL);
    wait();
  }
  void signal(int number) const { ::kill(pid_, number); }

  /// Waits for the end of the process, and returns its exit status; for one that a signal has ended, minus its number.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  /// Returns the exit status of the process, as wait() does, if the process has ended.
  std::optional<int> poll() {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == 0) return std::nullopt;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  /// Returns what the program has written so far.
  [[nodiscard]] std::string output() const {
    std::ifstream file(output_);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  /// Returns the line of the program's output that says the digest of its weights.
  [[nodiscard]] std::string weights() const {
    const std::string text = output();
    const std::size_t at = text.rfind("has weights ");
    // The peer's thread may still report something after it.
    return at == std::string::npos ? "no weights: " + text : text.substr(at, text.find('\n', at) - at);
  }

private:
  inline static int started = 0;
  std::filesystem::path output_;
  pid_t pid_ = 0;
};

/// Returns the state of the job of a log.
inline core::JobState state_of(const RemoteLogOptions& servers) {
  RemoteLog kept(servers);
  ChainedLog log(kept, {.tls = servers.tls});
  core::JobState state;
  for (LogIndex next = 0;;) {
    const LogPage page = BlockingLog(log).page(next);
    if (!page.answered) throw Error(page.why);
    if (page.entries.empty()) return state;
    next = page.from;
    for (const std::string& text : page.entries) {
      const Entry entry = entry_from_text(text);
      const auto at = static_cast<std::int64_t>(next++);
      const std::string why = at == state.entries ? std::string() : core::begin_with(state, at, entry);
      if (!why.empty()) throw Error(why);
      core::apply(state, entry);
    }
  }
}

/// Returns the state of the job whose log is at this address.
inline core::JobState state_of(const std::string& url) {
  return state_of(RemoteLogOptions{.servers = {url}, .tls = {}});
}

/// Waits until the log has that many committed rounds.
template <class Log>
void wait_for_round(const Log& log, std::int64_t rounds) {
  while (state_of(log).round() < rounds) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace reef::swarm::test
