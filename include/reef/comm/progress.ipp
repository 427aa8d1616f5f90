#pragma once

#include <reef/comm/detail/launch.hpp>
#include <reef/comm/detail/progress_end.hpp>
#include <reef/comm/detail/progress_submission.hpp>
#include <reef/comm/detail/progress_thread.hpp>
#include <reef/comm/detail/report.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/thread.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE Progress::~Progress() {
  stop(std::uncaught_exceptions() > exceptions_ ? Stop::unwinding : Stop::drain);
  thread_.join();
  if (!parted_) leave_to_mpi();
}

REEF_INLINE void Progress::submit(Queue& queue, Task& task, std::function<bool()> ready,
                                  std::function<void()> completed, Readiness readiness) {
  const bool first = append(queue, task, std::move(ready), std::move(completed), readiness);
  if (first) naps_.wake();  // the others are found behind it, when whoever came first has done this
}

REEF_INLINE void Progress::run(Queue& queue, Task& task) {
  require_no_callback("run");
  append(queue, task, {}, {}, Readiness::polled);
  drive(task);
  wait(task);
}

REEF_INLINE void Progress::wait(const Task& task) {
  std::optional<detail::Waiting> waiting;
  if (task.in_flight()) {
    require_no_callback("wait");
    waiting.emplace(*occupations_);
  }
  std::unique_lock lock(mutex_);
  ++task.waiters_;
  while (task.in_flight()) {
    const std::int64_t until = task.awake_until_;
    if (detail::now_ns() >= until) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    while (task.in_flight() && detail::now_ns() < until) std::this_thread::yield();
    lock.lock();
  }
  --task.waiters_;
  if (task.state_ == Task::State::failed) rethrow();
}

REEF_INLINE void Progress::wait_all() {
  const detail::Waiting waiting(*occupations_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_ == 0; });
  rethrow();
}

REEF_INLINE void Progress::give_up(std::exception_ptr reason) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_ != nullptr || given_up_ != nullptr) return;
    given_up_ = std::move(reason);
    told_ = true;
  }
  naps_.wake();
}

REEF_INLINE void Progress::throw_failure() {
  const std::scoped_lock lock(mutex_);
  rethrow();
}

REEF_INLINE void Progress::wake() {
  // A write, so that either this sees that it asks, or it asks after this and sees what has come.
  if (asks_.fetch_or(0) != 0) naps_.wake();
}

REEF_INLINE void Progress::require_no_callback(const char* called) const {
  if (driver_.load() != std::this_thread::get_id()) return;
  throw OptionError("reef::comm::Progress::", called,
                    ": called in a callback, on the thread that moves all tasks.\n"
                    "  fix: submit() the task there, and wait for it elsewhere.");
}

REEF_INLINE void Progress::rethrow() {
  if (failure_ == nullptr) return;
  told_ = true;
  std::rethrow_exception(failure_);
}

REEF_INLINE Progress::Progress(MPI_Comm parent, const std::string& name, ProgressOptions options)
    : options_(checked(std::move(options), size_of(parent))),
      data_(parent, name + ".data"),
      control_comm_(parent, name + ".control"),
      window_(detail::open_window(data_, options_)),
      wire_(data_.handle(), rank(), size(), options_.network, meter_,
            options_.checksums, control_comm_.handle()),
      control_(control_comm_.handle(), rank(), size(), meter_) {
  try {
    thread_ = make_thread("reef::comm: the progress thread", [this] { serve(); });
  } catch (const Error& error) {
    // The others live, and are to hear of it: this thread may call MPI, as there is no other that does.
    control_.broadcast(detail::Signal::failure, error.what(), activity_);
    const std::int64_t until = detail::now_ns() + detail::to_ns(0.5);
    while (!control_.flushed() && detail::now_ns() < until) std::this_thread::yield();
    leave_to_mpi();
    throw;
  }
}

REEF_INLINE void Progress::leave_to_mpi() {
  data_.abandon();
  control_comm_.abandon();
}

REEF_INLINE int Progress::size_of(MPI_Comm ranks) {
  detail::check_launch();  // for whom no Environment did
  int size = 0;
  detail::check_mpi(MPI_Comm_size(ranks, &size), "MPI_Comm_size");
  return size;
}

REEF_INLINE void Progress::outlast(const Task& task) noexcept {
  const detail::Waiting waiting(*occupations_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&task] { return !task.in_flight(); });
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
