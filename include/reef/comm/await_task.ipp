#pragma once

#include <atomic>
#include <mutex>

#include <reef/comm/await_task.hpp>
#include <reef/comm/detail/naps.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

/// What an AwaitTask and those who complete it share.
class Awaiting {
public:
  void end(std::exception_ptr error) {
    std::shared_ptr<Naps> naps;
    {
      const std::scoped_lock lock(mutex_);
      if (error && !error_) error_ = std::move(error);
      ended_.store(true, std::memory_order_release);
      naps = naps_;
    }
    if (naps) naps->wake();
  }

  /// Keeps the progress thread's naps while a task runs; null: none does.
  void wake(std::shared_ptr<Naps> naps) {
    const std::scoped_lock lock(mutex_);
    naps_ = std::move(naps);
  }

  /// Returns true once for what has ended the task; throws what it failed with.
  bool take() {
    if (!ended_.load(std::memory_order_acquire)) return false;
    const std::scoped_lock lock(mutex_);
    ended_.store(false, std::memory_order_relaxed);
    naps_.reset();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return true;
  }

private:
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::exception_ptr error_;     // under mutex_
  std::shared_ptr<Naps> naps_;  // under mutex_
};

}  // namespace detail

REEF_INLINE void AwaitTask::Completion::complete() const { awaiting_->end(nullptr); }

REEF_INLINE void AwaitTask::Completion::fail(std::exception_ptr error) const { awaiting_->end(std::move(error)); }

REEF_INLINE AwaitTask::AwaitTask(std::string name)
    : Task(Kind::call, std::move(name)), awaiting_(std::make_shared<detail::Awaiting>()) {}

REEF_INLINE AwaitTask::~AwaitTask() {
  retire();
  awaiting_->wake(nullptr);
}

REEF_INLINE void AwaitTask::start(const detail::Station& station) {
  done_ = false;
  awaiting_->wake(station.naps);
}

REEF_INLINE bool AwaitTask::advance() {
  if (done_ || !awaiting_->take()) return false;
  done_ = true;
  return true;
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
