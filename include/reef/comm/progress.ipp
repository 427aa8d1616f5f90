#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <reef/comm/detail/launch.hpp>
#include <reef/comm/detail/progress_end.hpp>
#include <reef/comm/detail/progress_engine.hpp>
#include <reef/comm/detail/progress_submission.hpp>
#include <reef/comm/detail/progress_thread.hpp>
#include <reef/comm/detail/report.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/thread.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

REEF_INLINE ProgressEngine::~ProgressEngine() {
  stop(std::uncaught_exceptions() > exceptions_ ? Stop::unwinding : Stop::drain);
  thread_.join();
  if (!parted_) leave_to_mpi();
}

REEF_INLINE void ProgressEngine::submit(Queue& queue, Task& task, std::function<bool()> ready,
                                        std::function<void()> completed, Readiness readiness) {
  const bool first = append(queue, task, std::move(ready), std::move(completed), readiness);
  if (first) naps_->wake();  // the others are found behind it, when whoever came first has done this
}

REEF_INLINE void ProgressEngine::run(Queue& queue, Task& task) {
  require_no_callback("run");
  append(queue, task, {}, {}, Readiness::polled);
  drive(task);
  wait(task);
}

REEF_INLINE void ProgressEngine::wait(const Task& task) {
  std::optional<Waiting> waiting;
  if (task.in_flight()) {
    require_no_callback("wait");
    waiting.emplace(*occupations_);
  }
  std::unique_lock lock(mutex_);
  ++task.waiters_;
  while (task.in_flight()) {
    const std::int64_t until = task.awake_until_;
    if (now_ns() >= until) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    while (task.in_flight() && now_ns() < until) std::this_thread::yield();
    lock.lock();
  }
  --task.waiters_;
  if (task.state_ == Task::State::failed) rethrow();
}

REEF_INLINE void ProgressEngine::wait_all() {
  const Waiting waiting(*occupations_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_ == 0; });
  rethrow();
}

REEF_INLINE void ProgressEngine::give_up(std::exception_ptr reason) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_ != nullptr || given_up_ != nullptr) return;
    given_up_ = std::move(reason);
    told_ = true;
  }
  naps_->wake();
}

REEF_INLINE void ProgressEngine::throw_failure() {
  const std::scoped_lock lock(mutex_);
  rethrow();
}

REEF_INLINE void ProgressEngine::wake() {
  // A write, so that either this sees that it asks, or it asks after this and sees what has come.
  if (asks_.fetch_or(0) != 0) naps_->wake();
}

REEF_INLINE void ProgressEngine::require_no_callback(const char* called) const {
  if (driver_.load() != std::this_thread::get_id()) return;
  throw OptionError("reef::comm::Progress::", called,
                    ": called in a callback, on the thread that moves all tasks.\n"
                    "  fix: submit() the task there, and wait for it elsewhere.");
}

REEF_INLINE void ProgressEngine::rethrow() {
  if (failure_ == nullptr) return;
  told_ = true;
  std::rethrow_exception(failure_);
}

REEF_INLINE ProgressEngine::ProgressEngine(MPI_Comm parent, bool alone, const std::string& name,
                                           ProgressOptions options)
    : mpi_(alone ? std::optional<const MpiUser>()
                 : std::optional<const MpiUser>(std::in_place, "reef::comm::Progress")),
      options_(checked(std::move(options), alone ? 1 : size_of(parent))),
      returned_errors_(alone ? std::optional<ReturnedErrors>() : std::optional<ReturnedErrors>(std::in_place)),
      data_(copy_of(parent, alone, name + ".data")),
      control_comm_(copy_of(parent, alone, name + ".control")),
      window_(alone ? nullptr : open_window(data_, options_)),
      wire_(data_.handle(), rank(), size(), options_.network, meter_, options_.checksums, control_comm_.handle()),
      control_(control_comm_.handle(), rank(), size(), meter_) {
  try {
    thread_ = make_thread("reef::comm: the progress thread", [this] { serve(); });
  } catch (const Error& error) {
    // The others live, and are to hear of it: this thread may call MPI, as there is no other that does.
    control_.broadcast(Signal::failure, error.what(), activity_);
    const std::int64_t until = now_ns() + to_ns(0.5);
    while (!control_.flushed() && now_ns() < until) std::this_thread::yield();
    leave_to_mpi();
    throw;
  }
}

REEF_INLINE void ProgressEngine::leave_to_mpi() {
  data_.abandon();
  control_comm_.abandon();
}

REEF_INLINE int ProgressEngine::size_of(MPI_Comm ranks) {
  check_launch();  // for whom no Environment did
  int size = 0;
  check_mpi(MPI_Comm_size(ranks, &size), "MPI_Comm_size");
  return size;
}

REEF_INLINE Communicator ProgressEngine::copy_of(MPI_Comm parent, bool alone, const std::string& name) {
  return alone ? Communicator::alone(name) : Communicator(parent, name);
}

REEF_INLINE void ProgressEngine::outlast(const Task& task) noexcept {
  const Waiting waiting(*occupations_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&task] { return !task.in_flight(); });
}

REEF_INLINE void retire(Task& task, ProgressEngine& progress) noexcept { progress.retire(task); }

}  // namespace detail

REEF_INLINE Progress::Progress(std::unique_ptr<detail::ProgressEngine> engine)
    : engine_(std::move(engine)), rank_(engine_->rank()), size_(engine_->size()) {}

REEF_INLINE Progress::Progress(const Communicator& communicator, ProgressOptions options)
    : Progress(std::make_unique<detail::ProgressEngine>(communicator.handle(), communicator.is_alone(),
                                                        communicator.name(), std::move(options))) {}

REEF_INLINE Progress::Progress(ProgressOptions options)
    : Progress(
          std::make_unique<detail::ProgressEngine>(MPI_COMM_WORLD, false, "world", std::move(options))) {}

REEF_INLINE Progress::~Progress() = default;

REEF_INLINE Transport Progress::transport() const {
  return engine_->has_window() ? Transport::window : Transport::messages;
}

REEF_INLINE bool Progress::reads_peers() const { return engine_->reads_peers(); }

REEF_INLINE Bytes Progress::piece_bytes() const { return engine_->piece_bytes(); }

REEF_INLINE Queue& Progress::queue(const std::string& name) { return engine_->queue(name); }

REEF_INLINE void Progress::submit(Queue& queue, Task& task, std::function<bool()> ready,
                                  std::function<void()> completed, Readiness readiness) {
  engine_->submit(queue, task, std::move(ready), std::move(completed), readiness);
}

REEF_INLINE void Progress::run(Queue& queue, Task& task) { engine_->run(queue, task); }

REEF_INLINE void Progress::wait(const Task& task) { engine_->wait(task); }

REEF_INLINE void Progress::wait_all() { engine_->wait_all(); }

REEF_INLINE void Progress::give_up(std::exception_ptr reason) {
  engine_->give_up(std::move(reason));
}

REEF_INLINE void Progress::throw_failure() { engine_->throw_failure(); }

REEF_INLINE void Progress::tick() { engine_->tick(); }

REEF_INLINE void Progress::wake() { engine_->wake(); }

REEF_INLINE const std::shared_ptr<detail::Occupations>& Progress::occupations() const {
  return engine_->occupations();
}

REEF_INLINE Meter Progress::meter() const { return engine_->meter(); }

}  // namespace comm
}  // namespace v0
}  // namespace reef
