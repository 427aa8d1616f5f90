#pragma once

#include <chrono>

#include <reef/comm/detail/callback_thread.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/thread.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE void CallbackThread::Job::wait() const {
  while (state_.load(std::memory_order_acquire) == pending) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

REEF_INLINE CallbackThread::~CallbackThread() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

REEF_INLINE void CallbackThread::submit(Job& job) {
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

REEF_INLINE void CallbackThread::work() {
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

REEF_INLINE void CallbackThread::run(Job& job) {
  try {
    job.call_();
  } catch (...) {
    job.error_ = std::current_exception();
  }
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
