#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <reef/core/thread.hpp>

namespace reef::inline v0::comm::detail {

/// A thread beside the progress thread, for the user's code: messages and heartbeats go on while it
/// runs, however long that takes. Starts with its first job.
///
/// | order | jobs run one after another, in the order of submission                        |
/// | life  | the destructor waits for the job that runs; those behind it are ended unrun    |
class Aside {
public:
  /// A function and what became of it. The submitter keeps it until it is done.
  class Job {
  public:
    explicit Job(std::function<void()> call) : call_(std::move(call)) {}

    /// On the submitting thread.
    [[nodiscard]] bool done() const { return state_.load(std::memory_order_acquire) == ended; }
    void rethrow() {
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }
    /// Blocks while the job is submitted and not done: for whoever gives up, so it may take its time.
    void wait() const {
      while (state_.load(std::memory_order_acquire) == pending) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }

  private:
    friend class Aside;
    enum State : int { idle, pending, ended };

    std::function<void()> call_;
    std::exception_ptr error_;
    std::atomic<int> state_{idle};
  };

  /// `told` is called on the thread after each job.
  explicit Aside(std::function<void()> told) : told_(std::move(told)) {}
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// From one thread.
  void submit(Job& job) {
    if (!thread_.joinable()) {
      thread_ = make_thread("reef::comm: the thread of calls", [this] { work(); });
    }
    job.state_.store(Job::pending, std::memory_order_relaxed);
    {
      const std::scoped_lock lock(mutex_);
      jobs_.push_back(&job);
    }
    changed_.notify_all();
  }

private:
  void work() {
    std::vector<Job*> batch;
    while (true) {
      bool stop = false;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
        batch.swap(jobs_);
        stop = stop_;
      }
      if (batch.empty()) return;
      for (Job* const job : batch) {
        if (!stop) run(*job);
        job->state_.store(Job::ended, std::memory_order_release);  // it may be gone from here on
        told_();
      }
      batch.clear();
    }
  }

  static void run(Job& job) {
    try {
      job.call_();
    } catch (...) {
      job.error_ = std::current_exception();
    }
  }

  std::function<void()> told_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job*> jobs_;  // under mutex_
  bool stop_ = false;       // under mutex_
  std::thread thread_;      // started, and joined, by the submitter's side
};

}  // namespace reef::inline v0::comm::detail
