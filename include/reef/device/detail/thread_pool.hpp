#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/device/detail/doorbell.hpp>

namespace reef {
inline namespace v0 {
namespace device::detail {

/// Threads that help whoever calls run(). Several callers at once share them.
///
/// | order  | which thread runs a part, and when, is open; a part never depends on it            |
/// | cost   | about a microsecond while the helpers spin (at most 50 us after the last run), a   |
/// |        | wake-up afterwards; no allocation                                                  |
/// | errors | the first exception of a part ends the run and is thrown by run(); parts that have |
/// |        | not started do not                                                                 |
class ThreadPool {
public:
  /// `threads` counts the caller: 1 makes no thread. Throws OptionError where the system has no more.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { stop(); }

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// call(context, part) for every part in [0, parts), by the caller and the helpers; blocks. May
  /// be called from several threads and from inside a part.
  void run(std::int64_t parts, void (*call)(void*, std::int64_t), void* context);

private:
  void stop();

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

  Job* post(std::int64_t parts, void (*call)(void*, std::int64_t), void* context);

  void close(Job& job) {
    const std::lock_guard lock(mutex_);
    job.open = false;
  }

  void release(Job& job) {
    const std::lock_guard lock(mutex_);
    job.used = false;
  }

  Job* join();

  void take_parts(Job& job);

  void work();

  std::mutex mutex_;
  std::array<Job, 8> jobs_;
  Doorbell bell_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace device::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/device/detail/thread_pool.ipp>
#endif
