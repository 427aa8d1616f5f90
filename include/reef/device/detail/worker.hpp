#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#endif

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>
#include <reef/device/detail/action.hpp>
#include <reef/device/detail/doorbell.hpp>

namespace reef {
inline namespace v0 {
namespace device::detail {

/// The thread of a lane and the functions that it runs, in the order of submission.
///
/// | errors | an exception stops the lane: what is queued is dropped until take_error(). Lanes of the |
/// |        | device that await() something meanwhile stop too, rather than wait for ever             |
/// | life   | join() and the destructor run what is queued, then end the thread; an unclaimed         |
/// |        | exception is swallowed                                                                  |
template <class Lane>
class Worker {
public:
  /// prepare() runs first, on the thread; what it throws, every function throws. `failed_lanes` counts
  /// the stopped lanes of a device. The lane must be whole: a worker is its last member.
  template <class Prepare>
  Worker(Lane& lane, std::string name, std::atomic<int>& failed_lanes, Prepare prepare)
      : lane_(lane), name_(std::move(name)), failed_lanes_(failed_lanes) {
    thread_ = make_thread(concat("reef::device: lane \"", name_, "\""), [this, prepare] {
      try {
        set_name();
        prepare();
      } catch (...) {
        unprepared_ = std::current_exception();
      }
      work();
    });
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { join(); }

  [[nodiscard]] const std::string& name() const { return name_; }

  template <class F>
  void submit(F&& function) {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = queue_.empty();
      queue_.emplace_back(std::forward<F>(function));
      ++submitted_;
    }
    if (first) submitted_bell_.ring();  // the others are found with it
  }

  /// Blocks until everything submitted so far has run or was dropped.
  void synchronize(std::string_view device) {
    if (std::this_thread::get_id() == thread_.get_id()) {
      throw Error("reef::device::", device, "::Lane::synchronize: lane \"", name_,
                  "\" would wait for itself. Call it from outside the lane's functions.");
    }
    std::uint64_t wanted = 0;
    {
      const std::lock_guard lock(mutex_);
      wanted = submitted_;
    }
    completed_bell_.await([&] { return completed_.load(std::memory_order_acquire) >= wanted; },
                          longest_spin);
  }

  /// What stopped the lane, or null; finish() runs before the lane is usable again.
  template <class Finish>
  [[nodiscard]] std::exception_ptr take_error(const Finish& finish) {
    std::exception_ptr error;
    {
      const std::lock_guard lock(mutex_);
      error = std::exchange(error_, nullptr);
    }
    if (!error) return nullptr;
    finish();
    stopped_.store(false);
    failed_lanes_.fetch_sub(1);
    return error;
  }

  /// On the thread: blocks it until ready(), which `bell` announces.
  template <class Ready>
  void await(Doorbell& bell, std::string_view device, const Ready& ready) {
    bool failed = false;
    bell.await(
        [&] {
          if (ready()) return true;
          failed = failed_lanes_.load() > 0;
          return failed;
        },
        longest_spin, std::chrono::milliseconds(20));
    if (failed) {
      throw Error("reef::device::", device, ": lane \"", name_,
                  "\" stopped while it waited for an event, because another lane of the device "
                  "failed. That lane's synchronize() throws the cause.");
    }
  }

  void join() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    submitted_bell_.ring();
    thread_.join();
    if (error_) failed_lanes_.fetch_sub(1);
  }

private:
  using Function = Action<Lane>;

  // Lanes are many and mostly idle, so they sleep sooner than the pool.
  static constexpr std::chrono::microseconds idle_spin{10};

  void set_name() {
#if defined(__linux__)
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
#endif
  }

  void work() {
    std::vector<Function> batch;
    while (true) {
      const std::uint32_t seen = submitted_bell_.look();
      bool stop = false;
      {
        const std::lock_guard lock(mutex_);
        batch.swap(queue_);
        stop = stop_;
      }
      if (batch.empty()) {
        if (stop) return;
        submitted_bell_.spin_then_wait(seen, idle_spin);
        continue;
      }
      for (Function& function : batch) {
        run(function);
        function.reset();
      }
      completed_.fetch_add(batch.size(), std::memory_order_release);
      completed_bell_.ring();
      batch.clear();
    }
  }

  void run(Function& function) {
    if (stopped_.load()) return;
    try {
      if (unprepared_) std::rethrow_exception(unprepared_);
      function(lane_);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      stopped_.store(true);
      failed_lanes_.fetch_add(1);
    }
  }

  Lane& lane_;
  std::string name_;
  std::atomic<int>& failed_lanes_;
  std::mutex mutex_;
  std::vector<Function> queue_;    // under mutex_
  std::uint64_t submitted_ = 0;    // under mutex_
  bool stop_ = false;              // under mutex_
  std::exception_ptr error_;       // under mutex_
  std::exception_ptr unprepared_;  // of the thread alone
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> completed_{0};
  Doorbell submitted_bell_;
  Doorbell completed_bell_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace device::detail
}  // namespace v0
}  // namespace reef
