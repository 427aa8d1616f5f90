#pragma once

// A part of ProgressEngine: whom it hears of, and how it fails and ends. Included by progress.ipp, by
// nobody else.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reef/comm/detail/progress_engine.hpp>
#include <reef/comm/detail/ranks.hpp>
#include <reef/comm/detail/report.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

// -- life and death ----------------------------------------------------------------------------

REEF_INLINE void ProgressEngine::beat(std::int64_t now) {
  if (now < next_beat_ || farewell_) return;
  next_beat_ = now + to_ns(options_.heartbeat);
  control_.heartbeat(activity_.load(std::memory_order_relaxed), standing());
  explain(now);
}

template <class Visit>
REEF_INLINE void ProgressEngine::for_each_running(const Visit& visit) {
  for (const Turn& turn : turn_) {
    for (Task* const task : turn.queue->posted_) visit(*task);
    Task* first = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      first = turn.queue->head_;
    }
    if (first != nullptr && first->state_ == Task::State::running) visit(*first);
  }
}

REEF_INLINE std::uint64_t ProgressEngine::meeting_of(const Task& task) const {
  const std::uint64_t use = mix(task.operation_ + task.sequence_);
  if (is_collective(task)) return mix(use ^ task.scope_->channel);
  const bool sends = task.kind() == Kind::send;  // what comes back under its name is another one
  const auto from = static_cast<std::uint64_t>(sends ? rank() : task.peer());
  const auto to = static_cast<std::uint64_t>(sends ? task.peer() : rank());
  return mix(use ^ (from << 32 | to));
}

REEF_INLINE std::vector<Work> ProgressEngine::work() {
  std::vector<Work> all = occupations_->work();
  const bool call_waits = occupations_->is_waiting(callback_thread_.thread());  // for messages, as a source may
  for_each_running([&](Task& task) {
    if (task.kind() == Kind::call && counts(task) && !call_waits) {
      all.push_back({concat("the call '", task.name(), "'"), task.begin_, 0});
    }
  });
  return all;
}

REEF_INLINE Standing ProgressEngine::standing() {
  Standing standing;
  standing.works = !work().empty() || wire_.busy_until() > 0;
  standing.waits = occupations_->waits();
  for_each_running([&](Task& task) {
    task.missing(missing_);
    for (const int peer : missing_) standing.awaited.push_back({meeting_of(task), peer});
  });
  return standing;
}

REEF_INLINE void ProgressEngine::explain(std::int64_t now) {
  if (options_.deadline <= 0 || size() == 1) return;
  std::vector<int> waiting;
  for (int peer = 0; peer < size(); ++peer) {
    const Standing& other = control_.standings()[static_cast<std::size_t>(peer)];
    const bool waits = std::any_of(other.awaited.begin(), other.awaited.end(),
                                   [this](const auto& one) { return one.rank == rank(); });
    if (waits && peer != rank()) waiting.push_back(peer);
  }
  const std::int64_t longest = to_ns(options_.operation_deadline);
  std::string text;
  for (const Work& one : work()) {
    if (now - one.since < longest) continue;
    if (one.since != std::exchange(explained_since_, one.since)) next_explanation_ = 0;
    text = concat("is at work: ", text_of(one));
    break;
  }
  const Wire::Leaving leaving = wire_.leaving();
  if (text.empty() && leaving.until - now > longest) {
    explained_since_ = now;
    text = concat("sends ", format_bytes(leaving.bytes), " to rank ", leaving.peer,
                  ", for which the emulated link takes ",
                  format_seconds(to_seconds(leaving.until - now)), " yet");
  }
  if (text.empty() || waiting.empty() || now < next_explanation_) return;
  next_explanation_ = now + (std::max)(longest, now - explained_since_);
  std::fprintf(
      stderr,
      "reef::comm: rank %d %s. %s %s for it: it is late, not lost, and no deadline ends it.\n",
      rank(), text.c_str(), name_ranks(waiting).c_str(),
      waiting.size() == 1 ? "waits" : "wait");
}

REEF_INLINE std::string ProgressEngine::dump() {
  std::string text = occupations_->text();
  for (const Work& one : work()) text += concat("    at work: ", text_of(one), "\n");
  constexpr int most = 4;
  int awaiting = 0;
  for_each_running([&](Task& task) {
    std::vector<int> absent;
    task.missing(absent);
    if (absent.empty() || awaiting++ >= most) return;
    text += concat("    waits for ", name_ranks(absent), " at ",
                   describe(task.kind(), task.name(), task.sequence_), " in ", task.scope_->place,
                   "\n");
  });
  if (awaiting > most) text += concat("    and waits at ", awaiting - most, " more\n");
  return text + recorder_.text();
}

REEF_INLINE void ProgressEngine::forgive() {
  control_.forgive();
  const std::int64_t now = now_ns();
  for (const Turn& turn : turn_) {
    for (Task* const task : turn.queue->posted_) task->moved_ = now;
    const std::scoped_lock lock(mutex_);
    if (turn.queue->head_ != nullptr) turn.queue->head_->moved_ = now;
  }
}

REEF_INLINE void ProgressEngine::hear(int peer, Signal signal, const std::string& text) {
  if (signal == Signal::dump_request) {
    control_.send(peer, Signal::dump_reply, dump(), activity_);
    // The one who asks is about to report; two reports would say the same.
    quiet_until_ = now_ns() + to_ns(2);
  } else if (signal == Signal::dump_reply) {
    if (dumps_.size() == static_cast<std::size_t>(size())) {
      dumps_[static_cast<std::size_t>(peer)] = text;
    }
  } else if (signal == Signal::failure && !failed_) {
    const std::size_t own = text.rfind(prefix, 0) == 0 ? prefix.size() : 0;
    fail(concat(prefix, "rank ", peer, " reported: ", text.substr(own)), Why::reported);
  }
}

REEF_INLINE void ProgressEngine::watch(std::int64_t now) {
  if (failed_ || options_.deadline <= 0 || now < next_watch_ || now < quiet_until_) return;
  next_watch_ =
      now + to_ns((std::min)(options_.deadline, options_.operation_deadline) / 16);
  for_each_running([&](Task& task) { watch(task, now); });
}

REEF_INLINE void ProgressEngine::watch(Task& task, std::int64_t now) {
  task.missing(missing_);
  for (const int peer : missing_) {
    const std::int64_t heard = (std::max)(control_.heard(peer), wire_.heard(peer));
    const bool silent =
        to_seconds(now - (std::max)(heard, task.begin_)) > options_.deadline;
    if (silent) throw Overdue{overdue(task, {}, now)};
  }
  // Ranks that wait for each other are known to: whatever else takes time has time.
  const Seconds of_closed =
      (std::min)(options_.operation_deadline, (std::max)(options_.deadline, least_patience));
  if (missing_.empty() || to_seconds(now - task.moved_) < of_closed) return;
  const Hold hold = hold_of(control_.standings(), rank(), meeting_of(task));
  if (hold.gets_on) task.moved_ = now;
  std::int64_t active = task.moved_;
  for (const int reached : hold.reached)
    active = (std::max)(active, control_.active_since(reached));
  const Seconds patience = hold.closed ? of_closed : options_.operation_deadline;
  if (to_seconds(now - active) > patience) throw Overdue{overdue(task, hold, now)};
}

REEF_INLINE std::string ProgressEngine::overdue(const Task& task, const Hold& hold,
                                          std::int64_t now) const {
  std::vector<Absent> absent;
  const auto add = [&](int peer, bool direct) {
    const std::int64_t heard = (std::max)(control_.heard(peer), wire_.heard(peer));
    const Standing& standing = control_.standings()[static_cast<std::size_t>(peer)];
    Absent one{peer,
                       to_seconds(now - heard),
                       to_seconds(now - control_.active_since(peer)),
                       control_.left(peer),
                       {},
                       direct};
    for (const AwaitedRank& other : standing.awaited) {
      if (std::find(one.awaits.begin(), one.awaits.end(), other.rank) == one.awaits.end())
        one.awaits.push_back(other.rank);
    }
    std::sort(one.awaits.begin(), one.awaits.end());
    if (!standing.waits) one.awaits.clear();
    absent.push_back(std::move(one));
  };
  for (const int peer : missing_) add(peer, true);
  for (const int peer : hold.reached) {
    if (peer != rank() && std::find(missing_.begin(), missing_.end(), peer) == missing_.end())
      add(peer, false);
  }
  return concat(
      "reef::comm: rank ", rank(), " waits at ", describe(task.kind(), task.name(), task.sequence_),
      " in ", task.scope_->place, ", since ",
      format_seconds(to_seconds(now - task.begin_)), ": ", name_ranks(missing_),
      " did not arrive.",
      list_absent(absent, options_.deadline, options_.operation_deadline, hold.closed));
}

REEF_INLINE void ProgressEngine::fail(std::string text, Why why) noexcept {
  if (failed_) return;
  failed_ = true;
  endings_.clear();  // whoever waits for these is told, and may destroy them
  reported_ = why == Why::reported;
  try {
    if (why == Why::mismatch || why == Why::deadline) {
      gather_dumps();
      text += list_operations(dumps_);
    }
    if (why == Why::deadline && options_.abort_on_deadline) {
      std::fprintf(stderr, "\n%s\n", text.c_str());
      std::fflush(stderr);
      MPI_Abort(data_.handle(), 1);
    }
    if (why != Why::reported) control_.broadcast(Signal::failure, text, activity_);
  } catch (const std::exception& error) {
    text += std::string("\n  while reporting that: ") + error.what();
  }
  std::exception_ptr reason;
  if (why == Why::thrown && std::current_exception() != nullptr) {
    reason = std::current_exception();
  } else if (why == Why::deadline) {
    reason = std::make_exception_ptr(DeadlineError(text));
  } else if (why == Why::reported) {
    reason = std::make_exception_ptr(PeerError(text));
  } else {
    reason = std::make_exception_ptr(MpiError(text));
  }
  wire_.cancel(to_ns(0.1));
  {
    const std::scoped_lock lock(mutex_);
    failure_ = reason;
    failure_text_ = text;
  }
  if (options_.on_failure) options_.on_failure(text);
  const std::scoped_lock lock(mutex_);
  told_ = told_ || static_cast<bool>(options_.on_failure);
  for (const auto& queue : queues_) {
    for (const auto& scope : queue->scopes_) {
      if (scope->window != nullptr) scope->window->board(scope->position).withdrawn.store(1);
    }
    for (Task* const task : queue->posted_) {
      task->state_.store(Task::State::failed, std::memory_order_release);
    }
    queue->posted_.clear();
    for (Task* task = queue->head_; task != nullptr; task = task->next_) {
      task->state_.store(Task::State::failed, std::memory_order_release);
    }
    queue->head_ = queue->tail_ = nullptr;
  }
  tasks_ = 0;
  changed_.notify_all();
}

REEF_INLINE void ProgressEngine::gather_dumps() {
  dumps_.assign(static_cast<std::size_t>(size()), {});
  dumps_[static_cast<std::size_t>(rank())] = dump();
  control_.broadcast(Signal::dump_request, {}, activity_);
  const std::int64_t until = now_ns() + to_ns(1);
  const auto answered = [this] {
    return std::none_of(dumps_.begin(), dumps_.end(),
                        [](const auto& dump) { return dump.empty(); });
  };
  while (!answered() && now_ns() < until) {
    control_.poll([this](int peer, Signal signal, const std::string& text) {
      hear(peer, signal, text);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

// -- the end -----------------------------------------------------------------------------------

REEF_INLINE void ProgressEngine::stop(Stop how) {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = how;
  }
  naps_->wake();
}

REEF_INLINE void ProgressEngine::finish() {
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
  const std::int64_t now = now_ns();
  if (how == Stop::unwinding && !failed_) {
    fail(prefix + "it was ended by an exception.", Why::unwinding);
    return;
  }
  if (!idle) return;
  if (!farewell_) {
    farewell_ = true;
    parting_ = now;
    control_.broadcast(Signal::farewell, {}, activity_);
  }
  parted_ = !failed_ && control_.all_left();
  // After a failure nobody can be counted on; without one, a peer that went silent is dead. Who was
  // told of a failure stays a moment: the one who had it must print its reason before the launcher
  // ends the job over anybody's exit status.
  const Seconds patience = failed_ ? 0.5 : options_.deadline;
  const bool enough = patience > 0 && to_seconds(now - last_sign()) > patience;
  const bool stay = reported_ || (how == Stop::drain && !control_.all_left());
  if ((!stay && control_.flushed()) || enough) {
    leave_ = true;
    if (failed_ && !told && how == Stop::drain) {
      std::fprintf(stderr, "%s\n", failure_text_.c_str());
    }
  }
}

REEF_INLINE std::int64_t ProgressEngine::last_sign() const {
  std::int64_t last = parting_;
  if (failed_) return last;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank() && !control_.left(peer)) last = (std::max)(last, control_.heard(peer));
  }
  return last;
}

REEF_INLINE void ProgressEngine::retire(Task& task) noexcept {
  std::unique_lock lock(mutex_);
  retired_ = true;
  changed_.wait(lock, [&task] { return !task.in_flight(); });
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
