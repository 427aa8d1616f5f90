#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/detail/circle.hpp>
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
void retire(Task& task, Progress& progress) noexcept;  // defined in progress.hpp
}  // namespace detail

/// How a task that waits to be ready comes to be asked: after every nap, or when whoever made it ready calls
/// Progress::wake().
enum class Readiness : std::uint8_t { polled, told };

/// One operation of the progress thread, prepared once and submitted as often as one likes.
///
/// | owner  | the caller; the task and its buffers stay where they are while it is in flight        |
/// | name   | the same on all ranks that take part; it is in every message, trace and error          |
/// | reuse  | submit again once complete: no allocation after the first time with the same sizes     |
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
  /// The ranks that take part in a collective; nothing: all of them.
  [[nodiscard]] const std::optional<Group>& group() const& { return group_; }
  [[nodiscard]] std::optional<Group> group() const&& { return group_; }

  /// Queued or running: neither the task nor its buffers may be touched.
  [[nodiscard]] bool in_flight() const;

  /// The last submission is complete.
  [[nodiscard]] bool complete() const {
    return state_.load(std::memory_order_acquire) == State::complete;
  }

  /// The number of the codec that encodes the bytes of the next submissions. Every message carries it: where
  /// another rank's number differs, the operation fails on both. 0, the default: bytes are as in memory. Not
  /// while in flight.
  void set_codec(std::uint8_t codec) { codec_ = codec; }
  [[nodiscard]] std::uint8_t codec() const { return codec_; }

  /// What this rank has sent of it in all submissions, as a meter counts. Not while in flight.
  [[nodiscard]] Cost sent() const { return sent_; }

  /// How the trace names the next submission: see trace::Links. Not while in flight.
  void trace_as(std::uint32_t id) { links_ = {.id = id}; }
  /// Of the next submission: what it does is no sign that its rank gets on while `fills` returns true, as it is repeated until
  /// something else has come. Asked on any thread. Not while in flight.
  void fill_wait(std::function<bool()> fills) { fills_ = std::move(fills); }
  /// What the trace says that this submission waited for. On the progress thread, by `ready`.
  void trace_cause(std::uint32_t cause) { links_.cause = cause; }

protected:
  Task(Kind kind, std::string name) : Task(kind, std::move(name), {}) {}
  /// A task of a group, if one is given; throws what Group::check throws.
  Task(Kind kind, std::string name, std::optional<Group> group);
  virtual ~Task() = default;

  /// Every final class calls this first in its destructor: a task that dies in flight takes the
  /// whole Progress object down with it, instead of leaving MPI to write into freed memory.
  void retire() noexcept {
    if (in_flight() && progress_ != nullptr) detail::retire(*this, *progress_);
  }

  /// The description of a message of this task, to be sent or expected.
  [[nodiscard]] Header header(const detail::Station& station, std::uint32_t piece,
                              Bytes bytes) const;

private:
  friend class Progress;
  friend class Queue;
  friend void detail::retire(Task& task, Progress& progress) noexcept;

  enum class State : std::uint8_t { idle, queued, running, complete, failed };

  // All of these run on the progress thread, one after the other, and never block.
  virtual void start(const detail::Station& station) = 0;
  virtual bool advance() = 0;  // true if something moved
  [[nodiscard]] virtual bool done() const = 0;
  /// Where it can tell, whoever waits for the task is called a moment before the last message.
  [[nodiscard]] virtual detail::Awaited awaited() const { return {}; }
  virtual void missing(std::vector<int>& ranks) const = 0;  // who has not arrived
  [[nodiscard]] virtual Bytes payload() const = 0;
  [[nodiscard]] virtual Bytes carried() const { return payload(); }  // of that, in what is complete
  [[nodiscard]] virtual int peer() const { return -1; }        // point to point: the other rank
  [[nodiscard]] virtual bool posted() const { return false; }  // it holds its queue till it starts

  std::string name_;
  Kind kind_;
  std::optional<Group> group_;
  std::uint64_t operation_ = 0;
  std::uint8_t codec_ = 0;
  detail::Circle* circle_ = nullptr;  // the queue's, for its group
  std::atomic<State> state_{State::idle};
  Progress* progress_ = nullptr;
  Task* next_ = nullptr;
  std::function<bool()> ready_;
  Readiness readiness_ = Readiness::polled;
  std::function<void()> completed_;
  std::function<bool()> fills_;
  trace::Links links_;
  Cost sent_{};  // written by the progress thread
  std::uint32_t sequence_ = 0;
  std::int64_t asked_ = 0;  // when it was submitted, if nothing then kept it from starting; else 0
  std::int64_t begin_ = 0;
  std::int64_t moved_ = 0;
  std::uint64_t record_ = 0;
  mutable int waiters_ = 0;       // in wait(); this and the next under Progress's mutex
  std::int64_t awake_until_ = 0;  // they wait awake: it is about to be done
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/task.ipp>
#endif
