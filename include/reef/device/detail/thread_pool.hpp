#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/device/detail/doorbell.hpp>

namespace reef::inline v0::device::detail {

/// Threads that help whoever calls run(). Several callers at once share them.
///
/// | order  | which thread runs a part, and when, is open; a part never depends on it            |
/// | cost   | about a microsecond while the helpers spin (at most 50 us after the last run), a    |
/// |        | wake-up afterwards; no allocation                                                   |
/// | errors | the first exception of a part ends the run and is thrown by run(); parts that have  |
/// |        | not started do not                                                                  |
class ThreadPool {
public:
  /// `threads` counts the caller: 1 makes no thread. Throws OptionError where the system has no more.
  explicit ThreadPool(int threads) {
    try {
      workers_.reserve(static_cast<std::size_t>(threads > 1 ? threads - 1 : 0));
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::exception& error) {
      const std::size_t made = workers_.size() + 1;
      stop();
      throw OptionError("reef::device: ", made, " of ", threads,
                        " threads could be made: ", error.what(),
                        ".\n  fix: fewer threads, or a higher limit (ulimit -u, -v).");
    }
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { stop(); }

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// call(context, part) for every part in [0, parts), by the caller and the helpers; blocks. May
  /// be called from several threads and from inside a part.
  void run(std::int64_t parts, void (*call)(void*, std::int64_t), void* context) {
    Job* const job = parts > 1 && !workers_.empty() ? post(parts, call, context) : nullptr;
    if (job == nullptr) {
      for (std::int64_t part = 0; part < parts; ++part) call(context, part);
      return;
    }
    bell_.ring();
    take_parts(*job);
    close(*job);
    job->left.await([&] { return job->helpers.load(std::memory_order_acquire) == 0; },
                    longest_spin);
    std::exception_ptr error = std::exchange(job->error, nullptr);
    release(*job);
    if (error) std::rethrow_exception(std::move(error));
  }

private:
  void stop() {
    stop_.store(true);
    bell_.ring();
    for (std::thread& worker : workers_) worker.join();
  }

  // Lives as long as the pool: a helper that leaves may still ring when the caller has returned.
  struct Job {
    void (*call)(void*, std::int64_t) = nullptr;
    void* context = nullptr;
    std::int64_t parts = 0;
    bool used = false;  // under mutex_
    bool open = false;  // under mutex_: helpers may join
    std::atomic<std::int64_t> next{0};
    std::atomic<int> helpers{0};
    std::exception_ptr error;  // under mutex_ while there are helpers
    Doorbell left;
  };

  Job* post(std::int64_t parts, void (*call)(void*, std::int64_t), void* context) {
    const std::lock_guard lock(mutex_);
    for (Job& job : jobs_) {
      if (job.used) continue;
      job.used = job.open = true;
      job.call = call;
      job.context = context;
      job.parts = parts;
      job.next.store(0, std::memory_order_relaxed);
      return &job;
    }
    return nullptr;  // more callers than slots: this one works alone
  }

  void close(Job& job) {
    const std::lock_guard lock(mutex_);
    job.open = false;
  }

  void release(Job& job) {
    const std::lock_guard lock(mutex_);
    job.used = false;
  }

  Job* join() {
    const std::lock_guard lock(mutex_);
    for (Job& job : jobs_) {
      if (!job.open || job.next.load(std::memory_order_relaxed) >= job.parts) continue;
      job.helpers.fetch_add(1, std::memory_order_relaxed);
      return &job;
    }
    return nullptr;
  }

  void take_parts(Job& job) {
    try {
      while (true) {
        const std::int64_t part = job.next.fetch_add(1, std::memory_order_relaxed);
        if (part >= job.parts) return;
        job.call(job.context, part);
      }
    } catch (...) {
      job.next.store(job.parts, std::memory_order_relaxed);
      const std::lock_guard lock(mutex_);
      if (!job.error) job.error = std::current_exception();
    }
  }

  void work() {
    while (true) {
      const std::uint32_t seen = bell_.look();
      if (stop_.load()) return;
      if (Job* const job = join()) {
        take_parts(*job);
        job->helpers.fetch_sub(1, std::memory_order_release);
        job->left.ring();
      } else {
        bell_.spin_then_wait(seen, longest_spin);
      }
    }
  }

  std::mutex mutex_;
  std::array<Job, 8> jobs_;
  Doorbell bell_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace reef::inline v0::device::detail
