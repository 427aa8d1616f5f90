#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/detail/control.hpp>
#include <reef/comm/detail/flight_recorder.hpp>
#include <reef/comm/detail/names.hpp>
#include <reef/comm/detail/naps.hpp>
#include <reef/comm/detail/report.hpp>
#include <reef/comm/detail/window.hpp>
#include <reef/comm/detail/wire.hpp>
#include <reef/comm/options.hpp>
#include <reef/comm/queue.hpp>
#include <reef/comm/task.hpp>

namespace reef::inline v0::comm {

/// The one thread of a process that makes MPI calls: it runs the tasks of all queues.
///
/// | who      | all ranks construct and destroy it: collective, both block. One per process            |
/// | calls    | while it lives nobody else calls MPI, unless MPI grants MPI_THREAD_MULTIPLE; errors     |
/// |          | on MPI_COMM_WORLD and MPI_COMM_SELF are returned meanwhile, not fatal                   |
/// | polling  | at once while something moves, else after a nap of 1/64 of the wait so far, 50 us to    |
/// |          | 1 ms; it sleeps between signs of life when there is no task                             |
/// | deadline | counts from the last message or sign of life of a peer that somebody waits for: a slow  |
/// |          | rank is late, not dead. See ProgressOptions                                             |
/// | errors   | MpiError, DeadlineError, or what a callback threw, out of wait() and the next submit(); |
/// |          | the object is unusable then, the other ranks are told, and unfinished tasks' buffers    |
/// |          | may be written to until the process ends                                                |
/// | end      | the destructor completes what was submitted, then waits until all ranks are there; when |
/// |          | an exception destroys it, it tells the others instead, whose tasks fail                  |
class Progress {
public:
  explicit Progress(const Communicator& communicator, ProgressOptions options = {})
      : options_(checked(std::move(options), communicator.size())),
        data_(communicator.handle(), communicator.name() + ".data"),
        control_comm_(communicator.handle(), communicator.name() + ".control"),
        names_(detail::largest_tag(data_)),
        window_(detail::open_window(data_, options_)),
        wire_(data_.handle(), rank(), size(), options_.network, meter_),
        control_(control_comm_.handle(), rank(), size(), meter_) {
    thread_ = std::thread([this] { serve(); });
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  ~Progress() {
    stop(std::uncaught_exceptions() > exceptions_ ? Stop::unwinding : Stop::drain);
    thread_.join();
    if (parted_) return;
    // Freeing is for ranks that ended together.
    if (window_ != nullptr) window_->release = false;
    data_.abandon();
    control_comm_.abandon();
  }

  [[nodiscard]] int rank() const { return data_.rank(); }
  [[nodiscard]] int size() const { return data_.size(); }

  /// How collectives travel here.
  [[nodiscard]] Transport transport() const {
    return window_ != nullptr ? Transport::window : Transport::messages;
  }
  [[nodiscard]] Bytes piece_bytes() const { return options_.piece_bytes; }

  /// The queue of that name, made when first asked for; lives as long as this. Any thread.
  Queue& queue(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    for (const auto& queue : queues_) {
      if (queue->name_ == name) return *queue;
    }
    trace::Track* const track =
        options_.trace != nullptr ? &options_.trace->track("comm." + name) : nullptr;
    queues_.push_back(std::unique_ptr<Queue>(new Queue(name, names_.queue(name), track)));
    return *queues_.back();
  }

  /// Appends `task` to the queue. Returns at once; any thread.
  ///
  /// `ready` is asked on the progress thread, about every nap, before the task starts: what it must
  /// wait for elsewhere. `completed` is called there when the task is done, before wait() returns.
  /// Both are short, never block, and may submit other tasks. Throws OptionError if the task is in
  /// flight, or sends to a rank that is not there.
  void submit(Queue& queue, Task& task, std::function<bool()> ready = {},
              std::function<void()> completed = {}) {
    check_submission(task);
    {
      const std::scoped_lock lock(mutex_);
      rethrow();
      task.progress_ = this;
      task.ready_ = std::move(ready);
      task.completed_ = std::move(completed);
      task.next_ = nullptr;
      task.state_.store(Task::State::queued, std::memory_order_release);
      (queue.head_ == nullptr ? queue.head_ : queue.tail_->next_) = &task;
      queue.tail_ = &task;
      ++tasks_;
    }
    tick();
    wake();
  }

  /// Blocks until the task's last submission is complete; throws what went wrong. Any thread but
  /// the progress thread.
  void wait(const Task& task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&task] { return !task.in_flight(); });
    if (task.state_ == Task::State::failed) rethrow();
  }

  /// Blocks until no task is in flight; throws what went wrong.
  void wait_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_ == 0; });
    rethrow();
  }

  /// Says that this rank does something: a compute lane calls it per instruction, so that peers who
  /// wait for long can tell a slow rank from a stuck one. One relaxed increment; any thread.
  void tick() { activity_.fetch_add(1, std::memory_order_relaxed); }

  /// Ends a nap: a lane calls it when what a `ready` waits for has come. Any thread.
  void wake() { naps_.wake(); }

  /// What this rank sent so far. Any thread.
  [[nodiscard]] Meter meter() const { return meter_.read(); }

private:
  friend void detail::retire(Task& task, Progress& progress) noexcept;

  enum class Stop : std::uint8_t { no, drain, unwinding };

  struct Overdue {
    std::string text;
  };

  /// Throws the failure, if there is one. Under the lock.
  void rethrow() {
    if (failure_ == nullptr) return;
    told_ = true;
    std::rethrow_exception(failure_);
  }

  void check_submission(Task& task) {
    if (task.in_flight()) {
      throw OptionError("reef::comm: '" + task.name() +
                        "' is in flight already.\n  fix: wait for it, or make a second task.");
    }
    const int peer = task.peer();
    if (peer != -1 || task.kind() == Kind::send || task.kind() == Kind::receive) {
      if (peer < 0 || peer >= size() || peer == rank()) {
        throw OptionError("reef::comm: '" + task.name() + "' names rank " + std::to_string(peer) +
                          " as its peer; this is rank " + std::to_string(rank()) + " of " +
                          std::to_string(size()) + ".");
      }
      task.tag_ = names_.transfer(task.operation_, task.name());
    } else {
      names_.collective(task.operation_, task.kind(), task.name());
    }
  }

  // -- the progress thread -----------------------------------------------------------------------

  void serve() {
    std::int64_t last = detail::now_ns();
    while (!leave_) {
      const std::int64_t now = detail::now_ns();
      bool moved = false;
      try {
        moved = poll();
        // Whoever was stopped itself has not heard from the others for its own reasons.
        if (now - last > pause_ns_) forgive();
        last = now;
        beat(now);
        watch(now);
        finish();
      } catch (const detail::Mismatch& mismatch) {
        fail(detail::describe(mismatch, rank(), names_), Why::mismatch);
      } catch (const Overdue& overdue) {
        fail(overdue.text, Why::deadline);
      } catch (const Error& error) {
        fail(error.what(), Why::thrown);
      } catch (const std::exception& error) {
        fail(error.what(), Why::thrown);
      }
      naps_.rest(moved, next_beat_, wire_.next_arrival(), [this] { return busy(); });
    }
  }

  bool busy() {
    const std::scoped_lock lock(mutex_);
    return tasks_ > 0 || stop_ != Stop::no;
  }

  bool poll() {
    bool moved = control_.poll(
        [this](int peer, detail::Signal signal, const std::string& text) { hear(peer, signal, text); });
    if (failed_) return moved;
    for (int i = 0; i < polls_per_round; ++i) {
      if (wire_.poll()) {
        moved = true;
        break;
      }
    }
    return step() || moved;
  }

  /// Gives every queue's first task a turn.
  bool step() {
    {
      const std::scoped_lock lock(mutex_);
      turn_.clear();
      for (const auto& queue : queues_) {
        if (queue->head_ != nullptr) turn_.push_back(queue.get());
      }
    }
    bool moved = false;
    for (Queue* const queue : turn_) {
      Task& task = *queue->head_;  // only this thread takes tasks off
      if (task.state_.load(std::memory_order_relaxed) == Task::State::queued) {
        if (task.ready_ && !task.ready_()) continue;
        start(*queue, task);
        moved = true;
      }
      if (task.advance()) {
        task.moved_ = detail::now_ns();
        moved = true;
      }
      if (task.done()) {
        complete(*queue, task);
        moved = true;
      }
    }
    return moved;
  }

  void start(Queue& queue, Task& task) {
    const bool collective = is_collective(task);
    if (collective && window_ != nullptr && queue.window_ == nullptr) {
      queue.window_ = &window_->channel(queue.name_);
    }
    task.sequence_ = collective ? queue.collectives_++ : own_[own_key(task)]++;
    task.begin_ = task.moved_ = detail::now_ns();
    task.record_ = recorder_.started(task.kind(), task.name(), task.sequence_, queue.name_,
                                     task.payload());
    task.state_.store(Task::State::running, std::memory_order_release);
    task.start({wire_, meter_, rank(), size(), options_.piece_bytes,
                collective ? queue.tag_ : task.tag_, task.sequence_,
                collective ? queue.window_ : nullptr, &queue.staging_});
  }

  void complete(Queue& queue, Task& task) {
    recorder_.ended(task.record_);
    if (queue.track_ != nullptr) {
      const std::uint64_t flow = flow_of(task);
      queue.track_->span(trace::Activity::communication, task.name(),
                         detail::to_seconds(task.begin_), detail::to_seconds(detail::now_ns()),
                         task.payload(), task.kind() == Kind::receive ? flow : 0,
                         task.kind() == Kind::send ? flow : 0);
    }
    tick();
    if (task.completed_) task.completed_();
    const std::scoped_lock lock(mutex_);
    queue.head_ = task.next_;
    if (queue.head_ == nullptr) queue.tail_ = nullptr;
    --tasks_;
    task.state_.store(Task::State::complete, std::memory_order_release);
    changed_.notify_all();
  }

  /// All ranks take part; a call is this rank's alone and counts by its own name.
  static bool is_collective(const Task& task) {
    return task.peer() == -1 && task.kind() != Kind::call;
  }

  /// What numbers the uses of a transfer or a call.
  static std::uint64_t own_key(const Task& task) {
    return detail::mix(task.operation_ + static_cast<std::uint64_t>(task.peer()) * 2 +
                       (task.kind() == Kind::send ? 1 : 0));
  }

  /// The same number for a send and its receive; 0 for collectives.
  [[nodiscard]] std::uint64_t flow_of(const Task& task) const {
    if (task.peer() == -1) return 0;
    const int from = task.kind() == Kind::send ? rank() : task.peer();
    const int to = task.kind() == Kind::send ? task.peer() : rank();
    const auto pair = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to);
    return detail::mix(detail::mix(task.operation_ ^ task.sequence_) ^ pair) | 1;
  }

  // -- life and death ----------------------------------------------------------------------------

  void beat(std::int64_t now) {
    if (now < next_beat_ || farewell_) return;
    next_beat_ = now + detail::to_ns(options_.heartbeat);
    control_.heartbeat(activity_.load(std::memory_order_relaxed));
  }

  void forgive() {
    control_.forgive();
    for (Queue* const queue : turn_) {
      const std::scoped_lock lock(mutex_);
      if (queue->head_ != nullptr) queue->head_->moved_ = detail::now_ns();
    }
  }

  void hear(int peer, detail::Signal signal, const std::string& text) {
    if (signal == detail::Signal::dump_request) {
      control_.send(peer, detail::Signal::dump_reply, recorder_.text(), activity_);
      // The one who asks is about to report; two reports would say the same.
      quiet_until_ = detail::now_ns() + detail::to_ns(2);
    } else if (signal == detail::Signal::dump_reply) {
      if (dumps_.size() == static_cast<std::size_t>(size())) {
        dumps_[static_cast<std::size_t>(peer)] = text;
      }
    } else if (signal == detail::Signal::failure && !failed_) {
      const std::size_t own = text.rfind(prefix, 0) == 0 ? prefix.size() : 0;
      fail(prefix + "rank " + std::to_string(peer) + " reported: " + text.substr(own),
           Why::reported);
    }
  }

  /// Throws Overdue when a running task waits for somebody who does not come.
  void watch(std::int64_t now) {
    if (failed_ || options_.deadline <= 0 || now < next_watch_ || now < quiet_until_) return;
    next_watch_ = now + detail::to_ns(std::min(options_.deadline, options_.operation_deadline) / 16);
    for (Queue* const queue : turn_) {
      const Task* task = nullptr;
      {
        const std::scoped_lock lock(mutex_);
        task = queue->head_;
      }
      if (task == nullptr || task->state_ != Task::State::running) continue;
      task->missing(missing_);
      for (const int peer : missing_) {
        const std::int64_t heard = std::max(control_.heard(peer), wire_.heard(peer));
        const std::int64_t active = std::max(control_.active_since(peer), task->moved_);
        const bool silent = detail::to_seconds(now - std::max(heard, task->begin_)) >
                            options_.deadline;
        if (silent || detail::to_seconds(now - active) > options_.operation_deadline) {
          throw Overdue{overdue(*queue, *task, now)};
        }
      }
    }
  }

  [[nodiscard]] std::string overdue(const Queue& queue, const Task& task, std::int64_t now) const {
    std::vector<detail::Absent> absent;
    for (const int peer : missing_) {
      const std::int64_t heard = std::max(control_.heard(peer), wire_.heard(peer));
      absent.push_back({peer, detail::to_seconds(now - heard),
                        detail::to_seconds(now - control_.active_since(peer)),
                        control_.left(peer)});
    }
    return "reef::comm: rank " + std::to_string(rank()) + " waits at " +
           describe(task.kind(), task.name(), task.sequence_) + " in queue '" + queue.name_ +
           "', since " + format_seconds(detail::to_seconds(now - task.begin_)) + ": " +
           detail::list_ranks(missing_) + " did not arrive." +
           detail::list_absent(absent, options_.deadline, options_.operation_deadline);
  }

  enum class Why : std::uint8_t { mismatch, deadline, thrown, reported, unwinding };

  /// Makes this object unusable: gathers what the ranks did last, tells everyone, wakes who waits.
  void fail(std::string text, Why why) noexcept {
    if (failed_) return;
    failed_ = true;
    try {
      if (why == Why::mismatch || why == Why::deadline) {
        gather_dumps();
        text += detail::list_operations(dumps_);
      }
      if (why == Why::deadline && options_.abort_on_deadline) {
        std::fprintf(stderr, "\n%s\n", text.c_str());
        std::fflush(stderr);
        MPI_Abort(data_.handle(), 1);
      }
      if (why != Why::reported) control_.broadcast(detail::Signal::failure, text, activity_);
    } catch (const std::exception& error) {
      text += std::string("\n  while reporting that: ") + error.what();
    }
    std::exception_ptr reason;
    if (why == Why::thrown && std::current_exception() != nullptr) {
      reason = std::current_exception();
    } else if (why == Why::deadline) {
      reason = std::make_exception_ptr(DeadlineError(text));
    } else {
      reason = std::make_exception_ptr(MpiError(text));
    }
    wire_.cancel(detail::to_ns(0.1));
    {
      const std::scoped_lock lock(mutex_);
      failure_ = reason;
      failure_text_ = text;
    }
    if (options_.on_failure) options_.on_failure(text);
    const std::scoped_lock lock(mutex_);
    told_ = told_ || static_cast<bool>(options_.on_failure);
    for (const auto& queue : queues_) {
      for (Task* task = queue->head_; task != nullptr; task = task->next_) {
        task->state_.store(Task::State::failed, std::memory_order_release);
      }
      queue->head_ = queue->tail_ = nullptr;
    }
    tasks_ = 0;
    changed_.notify_all();
  }

  void gather_dumps() {
    dumps_.assign(static_cast<std::size_t>(size()), {});
    dumps_[static_cast<std::size_t>(rank())] = recorder_.text();
    control_.broadcast(detail::Signal::dump_request, {}, activity_);
    const std::int64_t until = detail::now_ns() + detail::to_ns(1);
    const auto answered = [this] {
      return std::none_of(dumps_.begin(), dumps_.end(), [](const auto& dump) { return dump.empty(); });
    };
    while (!answered() && detail::now_ns() < until) {
      control_.poll([this](int peer, detail::Signal signal, const std::string& text) {
        hear(peer, signal, text);
      });
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  // -- the end -----------------------------------------------------------------------------------

  void stop(Stop how) {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = how;
    }
    wake();
  }

  /// Once told to stop: lets the queues run dry, says farewell, and waits for the others'.
  void finish() {
    bool idle = false;
    bool retired = false;
    Stop how = Stop::no;
    {
      const std::scoped_lock lock(mutex_);
      how = stop_;
      idle = tasks_ == 0;
      retired = retired_;
    }
    if (retired && !failed_) {
      fail(prefix + "a task was destroyed while it was in flight.\n  fix: keep tasks until wait() returns.",
           Why::unwinding);
    }
    if (how == Stop::no) return;
    const std::int64_t now = detail::now_ns();
    if (how == Stop::unwinding && !failed_) {
      fail(prefix + "it was ended by an exception.", Why::unwinding);
      return;
    }
    if (!idle) return;
    if (!farewell_) {
      farewell_ = true;
      parting_ = now;
      control_.broadcast(detail::Signal::farewell, {}, activity_);
    }
    parted_ = !failed_ && control_.all_left();
    // After a failure nobody can be counted on; without one, a peer that went silent is dead. Who
    // is ended by an exception has the reason, and must print it before the launcher ends the job.
    const Seconds patience = failed_ ? 0.5 : options_.deadline;
    const bool enough = patience > 0 && detail::to_seconds(now - last_sign()) > patience;
    const bool others_wait = how == Stop::drain && !control_.all_left();
    if ((!others_wait && control_.flushed()) || enough) {
      leave_ = true;
      if (failed_ && !told_ && how == Stop::drain) {
        std::fprintf(stderr, "%s\n", failure_text_.c_str());
      }
    }
  }

  [[nodiscard]] std::int64_t last_sign() const {
    std::int64_t last = parting_;
    if (failed_) return last;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank() && !control_.left(peer)) last = std::max(last, control_.heard(peer));
    }
    return last;
  }

  // MPICH moves little per test in shared memory: test more often before each nap.
#if defined(MPICH_VERSION)
  static constexpr int polls_per_round = 16;
#else
  static constexpr int polls_per_round = 1;
#endif
  static inline const std::string prefix = "reef::comm: ";

  const int exceptions_ = std::uncaught_exceptions();
  const ProgressOptions options_;
  detail::ReturnedErrors returned_errors_;
  Communicator data_;
  Communicator control_comm_;
  detail::LiveMeter meter_;
  detail::Names names_;
  std::unique_ptr<detail::SharedWindow> window_;
  std::atomic<std::uint64_t> activity_{0};

  std::mutex mutex_;  // guards the queues' lists and what follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::uint64_t tasks_ = 0;
  std::exception_ptr failure_;
  std::string failure_text_;
  bool told_ = false;
  bool retired_ = false;  // a task died in flight
  Stop stop_ = Stop::no;

  detail::Naps naps_;

  // The progress thread's own.
  detail::Wire wire_;
  detail::Control control_;
  detail::FlightRecorder recorder_;
  std::unordered_map<std::uint64_t, std::uint32_t> own_;
  std::vector<Queue*> turn_;
  std::vector<int> missing_;
  std::vector<std::string> dumps_;
  std::int64_t pause_ns_ = detail::to_ns(
      options_.deadline > 0 ? std::min(1.0, options_.deadline / 2) : 1.0);
  std::int64_t next_beat_ = 0;
  std::int64_t next_watch_ = 0;
  std::int64_t quiet_until_ = 0;
  std::int64_t parting_ = 0;
  bool failed_ = false;
  bool farewell_ = false;
  bool leave_ = false;
  bool parted_ = false;
  std::thread thread_;
};

namespace detail {

inline void retire(Task& task, Progress& progress) noexcept {
  std::unique_lock lock(progress.mutex_);
  progress.retired_ = true;
  progress.changed_.wait(lock, [&task] { return !task.in_flight(); });
}

}  // namespace detail

}  // namespace reef::inline v0::comm
