#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/thread.hpp>
#include <reef/swarm/log/detail/log_file.hpp>
#include <reef/swarm/log/local_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The file and the thread that alone uses it, which does one job after the other.
struct LocalLog::State {
  State(const std::filesystem::path& folder, Seconds patience)
      : file(folder, patience), cut(file.cut()), size(file.size()) {
    thread = make_thread("reef::swarm: the log", [this] { run(); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    wake.notify_one();
    thread.join();
  }

  void post(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex);
      if (closing) return;  // asked by a callback, at the end
      jobs.push_back(std::move(job));
    }
    wake.notify_one();
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return closing || !jobs.empty(); });
      if (jobs.empty()) return;  // what was asked before the end is answered
      const std::function<void()> job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  void append(LogIndex at, const std::string& entry, const AppendDone& done) {
    const LogIndex before = file.size();
    Appended answer = file.append(at, entry);
    const bool stands = file.size() > before;
    size = file.size();
    done(std::move(answer));
    if (!stands) return;
    std::erase_if(watchers, [](const auto& watcher) { return watcher->stopped(); });
    // Watches that are behind have a job of their own that reads on.
    for (const auto& watcher : std::vector(watchers)) watcher->give(at, entry);
  }

  /// Gives a page to a watch, and comes back until the watch has seen all.
  void catch_up(const std::shared_ptr<detail::Watcher>& watcher) {
    if (watcher->stopped()) return;
    if (watcher->next() >= file.size()) {
      watchers.push_back(watcher);
      return;
    }
    const LogPage page = file.page(watcher->next());
    if (page.entries.empty()) return;  // a disk that fails: reads say so
    watcher->give(page);
    post([this, watcher] { catch_up(watcher); });
  }

  detail::LogFile file;
  const Bytes cut;
  std::atomic<LogIndex> size;
  std::vector<std::shared_ptr<detail::Watcher>> watchers;  ///< of the thread's alone: those that have seen all
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> jobs;
  bool closing = false;
  std::thread thread;
};

REEF_INLINE LocalLog::LocalLog(const std::filesystem::path& folder, Seconds patience)
    : state_(std::make_unique<State>(folder, patience)) {}

REEF_INLINE LocalLog::~LocalLog() = default;

REEF_INLINE void LocalLog::append(LogIndex at, std::string entry, AppendDone done) {
  detail::require_entry(at, entry);
  state_->post([state = state_.get(), at, entry = std::move(entry), done = std::move(done)] {
    state->append(at, entry, done);
  });
}

REEF_INLINE void LocalLog::read(LogIndex from, ReadDone done) {
  state_->post([state = state_.get(), from, done = std::move(done)] { done(state->file.page(from)); });
}

REEF_INLINE LogWatch LocalLog::watch(LogIndex from, EntryFound found) {
  const auto watcher = std::make_shared<detail::Watcher>(from, std::move(found));
  state_->post([state = state_.get(), watcher] { state->catch_up(watcher); });
  return LogWatch(watcher);
}

REEF_INLINE void LocalLog::drop(LogIndex before) {
  state_->post([state = state_.get(), before] { state->file.drop(before); });
}

REEF_INLINE LogIndex LocalLog::size() const { return state_->size; }

REEF_INLINE Bytes LocalLog::cut() const { return state_->cut; }

}  // namespace swarm
}  // namespace v0
}  // namespace reef
