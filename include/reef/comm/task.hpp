#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/detail/collective_scope.hpp>
#include <reef/comm/detail/station.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/meter.hpp>
#include <reef/core/group.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

class Progress;
class Task;

namespace detail {
class ProgressEngine;
void retire(Task& task, ProgressEngine& progress) noexcept;  // defined in progress.ipp
}  // namespace detail

/// The time at which the `ready` function of a waiting communication task is called again: after every nap of the
/// progress thread (polled), or when the thread that made the task ready calls Progress::wake() (told).
enum class Readiness : std::uint8_t { polled, told };

/// A communication operation, run by the progress thread, prepared once and submitted any number of times.
///
/// | owner  | the caller, who must not move or free the task and its buffers while it is in flight    |
/// | name   | the same on all ranks that take part; it is in every message, trace and error           |
/// | reuse  | submit again once complete: no allocation after the first time with the same sizes      |
/// | states | idle -> queued -> running -> complete (or failed: the Progress object is unusable then) |
///
/// \code
/// // given: comm::Progress& progress, std::span<float> gradient, int steps
/// comm::AllReduceTask<float> task("gradient", gradient, progress.size());
/// for (int step = 0; step < steps; ++step) {
///   progress.submit(progress.queue("reduce"), task);
///   progress.wait(task);
/// }
/// \endcode
class Task {
public:
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  [[nodiscard]] const std::string& name() const& { return name_; }
  [[nodiscard]] std::string name() const&& { return name_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  /// Returns the group that takes part in a collective; nothing if all ranks do.
  [[nodiscard]] const std::optional<Group>& group() const& { return group_; }
  [[nodiscard]] std::optional<Group> group() const&& { return group_; }

  /// Returns true if the task is queued or running: neither the task nor its buffers may be touched.
  [[nodiscard]] bool in_flight() const;

  /// Returns true if the task's last submission is complete.
  [[nodiscard]] bool complete() const {
    return state_.load(std::memory_order_acquire) == State::complete;
  }

  /// Sets the number of the codec that encodes the bytes of the next submissions.
  /// Every message carries it: if the number of another rank differs, the operation
  /// fails on both. 0, the default, means not encoded. Not while in flight.
  void set_codec(std::uint8_t codec) { codec_ = codec; }
  [[nodiscard]] std::uint8_t codec() const { return codec_; }

  /// Returns the messages and bytes that this rank has sent for this task in all submissions. Not while in flight.
  [[nodiscard]] Cost sent() const { return sent_; }

  /// Sets the number of the task's next submission in the trace: see trace::Links. Not while in flight.
  void trace_as(std::uint32_t id) { links_ = {.id = id}; }
  /// Sets a function that returns true if the task's next submission is no sign of progress of its rank, because the
  /// rank repeats the submission until something else has arrived. Called on any thread. Not while in flight.
  void fill_wait(std::function<bool()> fills) { fills_ = std::move(fills); }
  /// Sets the id of the trace span for which this submission waited. Called on the progress thread, by `ready`.
  void trace_cause(std::uint32_t cause) { links_.cause = cause; }

protected:
  Task(Kind kind, std::string name) : Task(kind, std::move(name), {}) {}
  /// Constructs a communication task, of a group of ranks if one is given; throws as Group::validate does.
  Task(Kind kind, std::string name, std::optional<Group> group);
  virtual ~Task() = default;

  /// Ends a task that is destroyed. Every final class calls it first in its destructor: if the task is
  /// in flight, it makes the whole Progress object fail, instead of letting MPI write into freed memory.
  void retire() noexcept {
    if (in_flight() && progress_ != nullptr) detail::retire(*this, *progress_);
  }

  /// Returns the header of a message of this task, to be sent or expected.
  [[nodiscard]] Header header(const detail::Station& station, std::uint32_t piece,
                              Bytes bytes) const;

private:
  friend class detail::ProgressEngine;

  enum class State : std::uint8_t { idle, queued, running, complete, failed };

  // Starts the task. The progress thread calls this function and the virtual functions below, which never block.
  virtual void start(const detail::Station& station) = 0;
  virtual bool advance() = 0;  // runs the task further; returns true if something moved
  [[nodiscard]] virtual bool done() const = 0;
  /// Returns the message that the task awaits, if that is known: threads
  /// that wait for the task are woken shortly before its last message.
  [[nodiscard]] virtual detail::Awaited awaited() const { return {}; }
  virtual void missing(std::vector<int>& ranks) const = 0;  // fills in the ranks that have not arrived
  [[nodiscard]] virtual Bytes payload() const = 0;
  // Bytes of the payload that a complete task has moved.
  [[nodiscard]] virtual Bytes carried() const { return payload(); }
  [[nodiscard]] virtual int peer() const { return -1; }        // the other rank of a point-to-point task
  [[nodiscard]] virtual bool posted() const { return false; }  // true if the task holds its queue only until it starts

  std::string name_;
  Kind kind_;
  std::optional<Group> group_;
  std::uint64_t operation_ = 0;
  std::uint8_t codec_ = 0;
  detail::CollectiveScope* scope_ = nullptr;  // that of the queue for the task's group
  std::atomic<State> state_{State::idle};
  detail::ProgressEngine* progress_ = nullptr;
  Task* next_ = nullptr;
  std::function<bool()> ready_;
  Readiness readiness_ = Readiness::polled;
  std::function<void()> completed_;
  std::function<bool()> fills_;
  trace::Links links_;
  Cost sent_{};  // the cost of all submissions, counted by the progress thread
  std::uint32_t sequence_ = 0;
  std::int64_t asked_ = 0;  // time of submission, if nothing then kept the task from starting; else 0
  std::int64_t begin_ = 0;
  std::int64_t moved_ = 0;
  std::uint64_t record_ = 0;
  mutable int waiters_ = 0;       // the number of threads in wait(); Progress's mutex guards this and awake_until_
  std::int64_t awake_until_ = 0;  // until then waiters stay awake, since the task is about to be done
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/task.ipp>
#endif
