#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/device/detail/thread_pool.hpp>

namespace reef {
inline namespace v0 {
namespace device::detail {

REEF_INLINE ThreadPool::ThreadPool(int threads) {
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

REEF_INLINE void ThreadPool::run(std::int64_t parts, void (*call)(void*, std::int64_t), void* context) {
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

REEF_INLINE void ThreadPool::stop() {
  stop_.store(true);
  bell_.ring();
  for (std::thread& worker : workers_) worker.join();
}

REEF_INLINE ThreadPool::Job* ThreadPool::post(std::int64_t parts, void (*call)(void*, std::int64_t), void* context) {
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

REEF_INLINE ThreadPool::Job* ThreadPool::join() {
  const std::lock_guard lock(mutex_);
  for (Job& job : jobs_) {
    if (!job.open || job.next.load(std::memory_order_relaxed) >= job.parts) continue;
    job.helpers.fetch_add(1, std::memory_order_relaxed);
    return &job;
  }
  return nullptr;
}

REEF_INLINE void ThreadPool::take_parts(Job& job) {
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

REEF_INLINE void ThreadPool::work() {
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

}  // namespace device::detail
}  // namespace v0
}  // namespace reef
