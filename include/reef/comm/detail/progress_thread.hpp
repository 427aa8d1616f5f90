#pragma once

// A part of ProgressEngine: what its thread does. Included by progress.ipp, by nobody else.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <reef/comm/detail/progress_engine.hpp>
#include <reef/comm/detail/report.hpp>
#include <reef/core/inline.hpp>
#include <reef/device/detail/scheduling.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE void ProgressEngine::serve() {
  device::detail::wake_on_time();
  device::detail::go_first();
  std::int64_t last = now_ns();
  while (!leave_) {
    bool moved = false;
    std::int64_t beats = 0;
    std::int64_t arrives = 0;
    std::int64_t still = 0;
    std::int64_t longest = 0;
    {
      const std::scoped_lock engine(engine_);
      driver_ = std::this_thread::get_id();
      const std::int64_t now = now_ns();
      guarded([&] {
        moved = poll();
        // Whoever was stopped itself has not heard from the others for its own reasons.
        if (now - last > pause_ns_) forgive();
        last = now;
        beat(now);
        watch(now);
        finish();
      });
      beats = farewell_ ? never_ns : next_beat_;
      arrives = call_ahead();
      still = quiet();
      longest = wire_.longest_nap();
      driver_ = std::thread::id();
    }
    const auto has_tasks = [this] { return busy(); };
    naps_->rest(moved, beats, arrives, still, has_tasks, longest);
  }
  const std::scoped_lock engine(engine_);
  wire_.cancel(to_ns(0.1));  // the receives of claims that nobody will make
}

REEF_INLINE void ProgressEngine::drive(const Task& task) {
  {
    const std::unique_lock engine(engine_, std::try_to_lock);
    if (engine) driver_ = std::this_thread::get_id();
    const std::int64_t begin = now_ns();
    // MPI does not say when it has moved a part of a message: about 8 bytes in a ns.
    const std::int64_t patience = Naps::spin_ns + static_cast<std::int64_t>(task.payload() / 8);
    std::int64_t moved_at = begin;
    for (std::int64_t now = begin; engine && task.in_flight(); now = now_ns()) {
      if (now - begin > longest_drive_ns || now - moved_at > patience) break;
      bool moved = false;
      guarded([&] {
        moved = poll_wire();
        moved = step() || moved;
      });
      if (moved) {
        moved_at = now;
      } else if (!naps_->alone()) {
        break;  // whoever computes on this core, the progress thread too, is to have it
      } else {
        naps_->give_way();
      }
    }
    if (engine) driver_ = std::thread::id();
  }
  if (task.in_flight()) naps_->wake();
}

template <class Part>
REEF_INLINE void ProgressEngine::guarded(Part&& part) noexcept {
  try {
    part();
  } catch (const Mismatch& mismatch) {
    fail(describe(mismatch, rank(), names_), Why::mismatch);
  } catch (const Overdue& overdue) {
    fail(overdue.text, Why::deadline);
  } catch (const Error& error) {
    fail(error.what(), Why::thrown);
  } catch (const std::exception& error) {
    fail(error.what(), Why::thrown);
  } catch (...) {
    fail("a callback threw what is no std::exception", Why::thrown);
  }
}

REEF_INLINE bool ProgressEngine::busy() {
  const std::scoped_lock lock(mutex_);
  const bool awaits_claims = !desks_.empty() && size() > 1;
  return tasks_ > 0 || awaits_claims || stop_ != Stop::no ||
         (given_up_ != nullptr && failure_ == nullptr);
}

REEF_INLINE bool ProgressEngine::poll() {
  // No sign of life is a reason to look more often for what tasks wait for.
  control_.poll(
      [this](int peer, Signal signal, const std::string& text) { hear(peer, signal, text); });
  if (failed_) return false;
  const bool moved = poll_wire();
  return step() || moved;
}

REEF_INLINE bool ProgressEngine::poll_wire() {
  if constexpr (polls_per_round > 1) {
    // MPI does not say whether it moved a part of a message. A test that takes no longer than the
    // shortest of late did not; those that find nothing are no use, and cost system calls where
    // messages do. While every test moves something, the shortest is taken to be 2 us at most.
    for (int i = 1; i < polls_per_round; ++i) {
      const std::int64_t begin = now_ns();
      if (wire_.poll()) return true;
      const std::int64_t took = now_ns() - begin;
      shortest_poll_ns_ =
          (std::min)({took, shortest_poll_ns_ + shortest_poll_ns_ / 64 + 1, std::int64_t{2000}});
      if (took < 2 * shortest_poll_ns_) return false;
    }
  }
  return wire_.poll();
}

REEF_INLINE bool ProgressEngine::step() {
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& desk : desks_) desk->open(wire_);
    turn_.clear();
    for (const auto& queue : queues_) {
      if (queue->head_ == nullptr && queue->posted_.empty()) continue;
      turn_.push_back({queue.get(), queue->head_});
    }
  }
  bool moved = false;
  bool refused = false;
  endings_.clear();
  looks_ = false;
  asks_.exchange(1);  // before it asks: see wake()
  for (const auto& [queue, first] : turn_) {
    for (std::size_t i = 0; i < queue->posted_.size();) {
      const std::size_t under_way = queue->posted_.size();
      moved = advance(*queue, *queue->posted_[i]) || moved;
      if (queue->posted_.size() == under_way) ++i;  // else it is complete, and has left
    }
    Task* task = first;  // only this thread takes tasks off
    while (task != nullptr) {
      if (task->state_.load(std::memory_order_relaxed) == Task::State::queued) {
        if (task->ready_ && !task->ready_()) {
          looks_ = looks_ || task->readiness_ == Readiness::polled;
          refused = true;
          break;
        }
        start(*queue, *task);
        moved = true;
        if (task->posted()) {
          task = post(*queue, *task);
          continue;
        }
      }
      moved = advance(*queue, *task) || moved;
      break;
    }
  }
  if (!refused) asks_.exchange(0);  // no plain store: it would end what a wake() before it releases
  return moved;
}

REEF_INLINE Task* ProgressEngine::post(Queue& queue, Task& task) {
  const std::scoped_lock lock(mutex_);
  queue.posted_.push_back(&task);
  queue.head_ = task.next_;
  if (queue.head_ == nullptr) queue.tail_ = nullptr;
  return queue.head_;
}

REEF_INLINE bool ProgressEngine::advance(Queue& queue, Task& task) {
  const bool moved = task.advance();
  if (moved) {
    task.moved_ = now_ns();
    if (counts(task)) tick();
  }
  if (task.done()) {
    complete(queue, task);
    return true;
  }
  // In shared memory the others do not say when they have moved something.
  looks_ = looks_ || (may_use_window(task) && window_ != nullptr);
  const Awaited awaited = task.awaited();
  if (awaited.receiver == nullptr) return moved;
  const std::int64_t at = wire_.last_arrival(*awaited.receiver, awaited.messages);
  if (at != never_ns) endings_.push_back({&task, at});
  return moved;
}

REEF_INLINE std::int64_t ProgressEngine::quiet() const {
  return looks_ || farewell_ ? 0 : wire_.quiet();
}

REEF_INLINE std::int64_t ProgressEngine::call_ahead() {
  // Waking takes 10 to 40 us: it begins that much before the end, and lasts to a little after it.
  constexpr std::int64_t ahead = 80'000;
  constexpr std::int64_t late = 20'000;
  // On a shared core nobody should wake twice.
  if (!naps_->alone()) return wire_.next_arrival(2 * Naps::spin_ns);
  std::int64_t arrival = wire_.next_arrival(0);
  if (endings_.empty()) return arrival;
  const std::int64_t now = now_ns();
  bool called = false;
  const std::scoped_lock lock(mutex_);
  for (const auto& [task, at] : endings_) {
    if (task->waiters_ == 0) continue;
    if (now < at - ahead) {
      arrival = (std::min)(arrival, at - ahead + Naps::spin_ns);
    } else if (task->awake_until_ < at) {
      task->awake_until_ = at + late;
      called = true;
    }
  }
  if (called) changed_.notify_all();
  return arrival;
}

REEF_INLINE void ProgressEngine::start(Queue& queue, Task& task) {
  const bool collective = is_collective(task);
  CollectiveScope& scope = *task.scope_;
  const bool alone = scope.group.size() == 1;  // what one rank does needs no channel
  const bool windowed = may_use_window(task) && window_ != nullptr && !alone;
  if (windowed && scope.window == nullptr) {
    scope.window = &window_->channel(queue.name_, scope.group);
  }
  task.sequence_ = collective ? scope.collectives++ : own_[own_key(task)]++;
  task.begin_ = task.moved_ = now_ns();
  task.record_ =
      recorder_.started(task.kind(), task.name(), task.sequence_, scope.place, task.payload());
  task.state_.store(Task::State::running, std::memory_order_release);
  wire_.asked_at(task.asked_);
  task.start({wire_, meter_, task.sent_, scope.group.members, scope.position,
              options_.piece_bytes, collective ? scope.channel : task.operation_, task.sequence_,
              windowed ? scope.window : nullptr, &queue.staging_, &callback_thread_, naps_});
  wire_.asked_at(0);
}

REEF_INLINE void ProgressEngine::complete(Queue& queue, Task& task) {
  recorder_.ended(task.record_);
  if (queue.track_ != nullptr) {
    queue.track_->span(is_transfer(task) ? trace::Activity::communication : trace::Activity::other,
                       task.name(), to_seconds(task.begin_), to_seconds(now_ns()), task.carried(),
                       links_of(task));
  }
  if (counts(task)) tick();
  if (task.completed_) task.completed_();
  const std::scoped_lock lock(mutex_);
  if (queue.head_ == &task) {
    queue.head_ = task.next_;
    if (queue.head_ == nullptr) queue.tail_ = nullptr;
  } else {
    std::erase(queue.posted_, &task);
  }
  --tasks_;
  task.state_.store(Task::State::complete, std::memory_order_release);
  changed_.notify_all();
}

REEF_INLINE bool ProgressEngine::is_collective(const Task& task) {
  return task.peer() == -1 && task.kind() != Kind::call;
}

REEF_INLINE bool ProgressEngine::may_use_window(const Task& task) {
  return is_collective(task) && task.kind() != Kind::all_to_all;
}

REEF_INLINE bool ProgressEngine::is_transfer(const Task& task) {
  return task.kind() != Kind::call && task.kind() != Kind::claim;
}

REEF_INLINE std::uint64_t ProgressEngine::own_key(const Task& task) {
  return mix(task.operation_ + static_cast<std::uint64_t>(task.peer()) * 2 +
             (task.kind() == Kind::send ? 1 : 0));
}

REEF_INLINE trace::Links ProgressEngine::links_of(const Task& task) const {
  trace::Links links = task.links_;
  if (!is_transfer(task)) return links;
  const std::uint64_t use = mix(task.operation_ ^ task.sequence_);
  if (is_collective(task)) {
    links.role = trace::Role::meets;
    links.message = mix(use ^ task.scope_->channel) | 1;
    return links;
  }
  const bool sends = task.kind() == Kind::send;
  const int from = sends ? rank() : task.peer();
  const int to = sends ? task.peer() : rank();
  links.role = sends ? trace::Role::sends : trace::Role::receives;
  links.message =
      mix(use ^ (static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to))) | 1;
  return links;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
