#pragma once

// The private half of Progress: what its thread does. Included by progress.hpp, by nobody else.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/core/text.hpp>
#include <reef/device/detail/scheduling.hpp>

namespace reef::inline v0::comm {

// -- the progress thread -----------------------------------------------------------------------

inline void Progress::serve() {
  device::detail::wake_on_time();
  device::detail::go_first();
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
    } catch (...) {
      fail("a callback threw what is no std::exception", Why::thrown);
    }
    naps_.rest(moved, farewell_ ? detail::never_ns : next_beat_, call_ahead(), quiet(),
               [this] { return busy(); });
  }
  wire_.cancel(detail::to_ns(0.1));  // the receives of claims that nobody will make
}

inline bool Progress::busy() {
  const std::scoped_lock lock(mutex_);
  const bool awaits_claims = !desks_.empty() && size() > 1;
  return tasks_ > 0 || awaits_claims || stop_ != Stop::no ||
         (given_up_ != nullptr && failure_ == nullptr);
}

inline bool Progress::poll() {
  // No sign of life is a reason to look more often for what tasks wait for.
  control_.poll([this](int peer, detail::Signal signal, const std::string& text) {
    hear(peer, signal, text);
  });
  if (failed_) return false;
  const bool moved = poll_wire();
  return step() || moved;
}

inline bool Progress::poll_wire() {
  if constexpr (polls_per_round > 1) {
    // MPI does not say whether it moved a part of a message. A test that takes no longer than the
    // shortest of late did not; those that find nothing are no use, and cost system calls where
    // messages do. While every test moves something, the shortest is taken to be 2 us at most.
    for (int i = 1; i < polls_per_round; ++i) {
      const std::int64_t begin = detail::now_ns();
      if (wire_.poll()) return true;
      const std::int64_t took = detail::now_ns() - begin;
      shortest_poll_ns_ =
          std::min({took, shortest_poll_ns_ + shortest_poll_ns_ / 64 + 1, std::int64_t{2000}});
      if (took < 2 * shortest_poll_ns_) return false;
    }
  }
  return wire_.poll();
}

inline bool Progress::step() {
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& desk : desks_) desk->open(wire_);
    turn_.clear();
    for (const auto& queue : queues_) {
      if (queue->head_ != nullptr) turn_.push_back(queue.get());
    }
  }
  bool moved = false;
  endings_.clear();
  looks_ = false;
  for (Queue* const queue : turn_) {
    Task& task = *queue->head_;  // only this thread takes tasks off
    if (task.state_.load(std::memory_order_relaxed) == Task::State::queued) {
      if (task.ready_ && !task.ready_()) {
        looks_ = looks_ || task.readiness_ == Readiness::polled;
        continue;
      }
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
    } else {
      // In shared memory the others do not say when they have moved something.
      looks_ = looks_ || (is_collective(task) && window_ != nullptr);
      const detail::Awaited awaited = task.awaited();
      if (awaited.receiver == nullptr) continue;
      const std::int64_t at = wire_.last_arrival(*awaited.receiver, awaited.messages);
      if (at != detail::never_ns) endings_.push_back({&task, at});
    }
  }
  return moved;
}

inline std::int64_t Progress::quiet() const { return looks_ || farewell_ ? 0 : wire_.quiet(); }

inline std::int64_t Progress::call_ahead() {
  // Waking takes 10 to 40 us: it begins that much before the end, and lasts to a little after it.
  constexpr std::int64_t ahead = 80'000;
  constexpr std::int64_t late = 20'000;
  std::int64_t arrival = wire_.next_arrival();
  if (endings_.empty() || !naps_.alone()) return arrival;  // on a shared core nobody should wake twice
  const std::int64_t now = detail::now_ns();
  bool called = false;
  const std::scoped_lock lock(mutex_);
  for (const auto& [task, at] : endings_) {
    if (task->waiters_ == 0) continue;
    if (now < at - ahead) {
      arrival = std::min(arrival, at - ahead + detail::Naps::spin_ns);
    } else if (task->awake_until_ < at) {
      task->awake_until_ = at + late;
      called = true;
    }
  }
  if (called) changed_.notify_all();
  return arrival;
}

inline void Progress::start(Queue& queue, Task& task) {
  const bool collective = is_collective(task);
  if (collective && window_ != nullptr && queue.window_ == nullptr) {
    queue.window_ = &window_->channel(queue.name_);
  }
  task.sequence_ = collective ? queue.collectives_++ : own_[own_key(task)]++;
  task.begin_ = task.moved_ = detail::now_ns();
  task.record_ =
      recorder_.started(task.kind(), task.name(), task.sequence_, queue.name_, task.payload());
  task.state_.store(Task::State::running, std::memory_order_release);
  wire_.asked_at(task.asked_);
  task.start({wire_, meter_, rank(), size(), options_.piece_bytes,
              collective ? queue.tag_ : task.tag_, task.sequence_,
              collective ? queue.window_ : nullptr, &queue.staging_, &aside_});
  wire_.asked_at(0);
}

inline void Progress::complete(Queue& queue, Task& task) {
  recorder_.ended(task.record_);
  if (queue.track_ != nullptr) {
    queue.track_->span(is_transfer(task) ? trace::Activity::communication : trace::Activity::other,
                       task.name(), detail::to_seconds(task.begin_),
                       detail::to_seconds(detail::now_ns()), task.payload(), links_of(queue, task));
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

inline bool Progress::is_collective(const Task& task) {
  return task.peer() == -1 && task.kind() != Kind::call;
}

inline bool Progress::is_transfer(const Task& task) {
  return task.kind() != Kind::call && task.kind() != Kind::claim;
}

inline std::uint64_t Progress::own_key(const Task& task) {
  return detail::mix(task.operation_ + static_cast<std::uint64_t>(task.peer()) * 2 +
                     (task.kind() == Kind::send ? 1 : 0));
}

inline trace::Links Progress::links_of(const Queue& queue, const Task& task) const {
  trace::Links links = task.links_;
  if (!is_transfer(task)) return links;
  const std::uint64_t use = detail::mix(task.operation_ ^ task.sequence_);
  if (is_collective(task)) {
    links.role = trace::Role::meets;
    links.message = detail::mix(use ^ static_cast<std::uint64_t>(queue.tag_)) | 1;
    return links;
  }
  const bool sends = task.kind() == Kind::send;
  const int from = sends ? rank() : task.peer();
  const int to = sends ? task.peer() : rank();
  links.role = sends ? trace::Role::sends : trace::Role::receives;
  links.message =
      detail::mix(use ^ (static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to))) |
      1;
  return links;
}

// -- life and death ----------------------------------------------------------------------------

inline void Progress::beat(std::int64_t now) {
  if (now < next_beat_ || farewell_) return;
  next_beat_ = now + detail::to_ns(options_.heartbeat);
  control_.heartbeat(activity_.load(std::memory_order_relaxed));
}

inline void Progress::forgive() {
  control_.forgive();
  for (Queue* const queue : turn_) {
    const std::scoped_lock lock(mutex_);
    if (queue->head_ != nullptr) queue->head_->moved_ = detail::now_ns();
  }
}

inline void Progress::hear(int peer, detail::Signal signal, const std::string& text) {
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
    fail(concat(prefix, "rank ", peer, " reported: ", text.substr(own)), Why::reported);
  }
}

inline void Progress::watch(std::int64_t now) {
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
      const bool silent =
          detail::to_seconds(now - std::max(heard, task->begin_)) > options_.deadline;
      if (silent || detail::to_seconds(now - active) > options_.operation_deadline) {
        throw Overdue{overdue(*queue, *task, now)};
      }
    }
  }
}

inline std::string Progress::overdue(const Queue& queue, const Task& task, std::int64_t now) const {
  std::vector<detail::Absent> absent;
  for (const int peer : missing_) {
    const std::int64_t heard = std::max(control_.heard(peer), wire_.heard(peer));
    absent.push_back({peer, detail::to_seconds(now - heard),
                      detail::to_seconds(now - control_.active_since(peer)), control_.left(peer)});
  }
  return concat("reef::comm: rank ", rank(), " waits at ",
                describe(task.kind(), task.name(), task.sequence_), " in queue '", queue.name_,
                "', since ", format_seconds(detail::to_seconds(now - task.begin_)), ": ",
                detail::list_ranks(missing_), " did not arrive.",
                detail::list_absent(absent, options_.deadline, options_.operation_deadline));
}

inline void Progress::fail(std::string text, Why why) noexcept {
  if (failed_) return;
  failed_ = true;
  endings_.clear();  // whoever waits for these is told, and may destroy them
  reported_ = why == Why::reported;
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
    if (queue->window_ != nullptr) queue->window_->board(rank()).withdrawn.store(1);
    for (Task* task = queue->head_; task != nullptr; task = task->next_) {
      task->state_.store(Task::State::failed, std::memory_order_release);
    }
    queue->head_ = queue->tail_ = nullptr;
  }
  tasks_ = 0;
  changed_.notify_all();
}

inline void Progress::gather_dumps() {
  dumps_.assign(static_cast<std::size_t>(size()), {});
  dumps_[static_cast<std::size_t>(rank())] = recorder_.text();
  control_.broadcast(detail::Signal::dump_request, {}, activity_);
  const std::int64_t until = detail::now_ns() + detail::to_ns(1);
  const auto answered = [this] {
    return std::none_of(dumps_.begin(), dumps_.end(),
                        [](const auto& dump) { return dump.empty(); });
  };
  while (!answered() && detail::now_ns() < until) {
    control_.poll([this](int peer, detail::Signal signal, const std::string& text) {
      hear(peer, signal, text);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

// -- the end -----------------------------------------------------------------------------------

inline void Progress::stop(Stop how) {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = how;
  }
  wake();
}

inline void Progress::finish() {
  bool idle = false;
  bool retired = false;
  bool told = false;
  Stop how = Stop::no;
  std::exception_ptr reason;
  {
    const std::scoped_lock lock(mutex_);
    reason = given_up_;
    how = stop_;
    idle = tasks_ == 0;
    retired = retired_;
    told = told_;
  }
  // First: whoever gave up may have destroyed its tasks, or this, meanwhile.
  if (reason != nullptr && !failed_) std::rethrow_exception(reason);
  if (retired && !failed_) {
    fail(
        prefix +
            "a task was destroyed while it was in flight.\n  fix: keep tasks until wait() returns.",
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
  // After a failure nobody can be counted on; without one, a peer that went silent is dead. Who was
  // told of a failure stays a moment: the one who had it must print its reason before the launcher
  // ends the job over anybody's exit status.
  const Seconds patience = failed_ ? 0.5 : options_.deadline;
  const bool enough = patience > 0 && detail::to_seconds(now - last_sign()) > patience;
  const bool stay = reported_ || (how == Stop::drain && !control_.all_left());
  if ((!stay && control_.flushed()) || enough) {
    leave_ = true;
    if (failed_ && !told && how == Stop::drain) {
      std::fprintf(stderr, "%s\n", failure_text_.c_str());
    }
  }
}

inline std::int64_t Progress::last_sign() const {
  std::int64_t last = parting_;
  if (failed_) return last;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank() && !control_.left(peer)) last = std::max(last, control_.heard(peer));
  }
  return last;
}

namespace detail {

inline void retire(Task& task, Progress& progress) noexcept {
  std::unique_lock lock(progress.mutex_);
  progress.retired_ = true;
  progress.changed_.wait(lock, [&task] { return !task.in_flight(); });
}

}  // namespace detail

}  // namespace reef::inline v0::comm
