#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// A thread beside the progress thread, for the user's code: messages and heartbeats go on while it
/// runs, however long that takes. Starts with its first job.
///
/// | order | jobs run one after another, in the order of submission                      |
/// | life  | the destructor waits for the job that runs; those behind it are ended unrun |
class CallbackThread {
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
    void wait() const;

  private:
    friend class CallbackThread;
    enum State : int { idle, pending, ended };

    std::function<void()> call_;
    std::exception_ptr error_;
    std::atomic<int> state_{idle};
  };

  /// `told` is called on the thread after each job.
  explicit CallbackThread(std::function<void()> told) : told_(std::move(told)) {}
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;
  ~CallbackThread();

  /// From one thread.
  void submit(Job& job);
  /// The thread that runs jobs, once there was one. For the submitting thread.
  [[nodiscard]] std::thread::id thread() const { return thread_.get_id(); }

private:
  void work();

  static void run(Job& job);

  std::function<void()> told_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job*> jobs_;  // under mutex_
  bool stop_ = false;       // under mutex_
  std::thread thread_;      // started, and joined, by the submitter's side
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/callback_thread.ipp>
#endif
