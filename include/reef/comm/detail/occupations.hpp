#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reef/comm/detail/clock.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// Something that a rank is at.
struct Work {
  std::string what;
  std::int64_t since = 0;
  Seconds expected = 0;  ///< how long it should take; 0: nobody knows
};

/// What may be at work: a lane, or a thread of the program. Is asked on the progress thread.
class Worker {
public:
  /// What it is at; nothing where it waits, or has nothing to do.
  [[nodiscard]] virtual std::optional<Work> work() const = 0;
  /// The thread that is at it; none where what is under way needs none.
  [[nodiscard]] virtual std::thread::id thread() const = 0;

protected:
  ~Worker() = default;
};

/// What the thread that made it is at.
class OwnWork {
public:
  OwnWork(std::string what, Seconds expected, std::string reason)
      : work_{std::move(what), now_ns(), expected},
        reason_(std::move(reason)),
        thread_(std::this_thread::get_id()) {}

  [[nodiscard]] const Work& work() const { return work_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] std::thread::id thread() const { return thread_; }

private:
  Work work_;
  std::string reason_;
  std::thread::id thread_;
};

/// What a rank is at, and which of its threads wait. Any thread.
class Occupations {
public:
  void add(const Worker& worker);
  void remove(const Worker& worker);
  void add(const OwnWork& own);
  void remove(const OwnWork& own);

  /// The calling thread waits, from here to the call of go_on().
  void wait();
  void go_on();

  /// All that is at work, but what a thread is at that waits for tasks meanwhile.
  [[nodiscard]] std::vector<Work> work() const;
  /// The thread that made this waits, for tasks or for a round of a program: the one that makes a rank's calls, as a
  /// rule. Where another one makes them, nobody knows that it waits.
  [[nodiscard]] bool waits() const;
  /// That thread waits so.
  [[nodiscard]] bool is_waiting(std::thread::id thread) const;
  /// What the threads that wait are at, and why ranks may have parted: a line of each, for a report.
  [[nodiscard]] std::string text() const;

  /// Begins a line that says why ranks may have parted.
  static constexpr const char* reason_mark = "    because ";

private:
  [[nodiscard]] bool waits(std::thread::id thread) const;

  mutable std::mutex mutex_;
  const std::thread::id owner_ = std::this_thread::get_id();
  std::vector<const Worker*> workers_;
  std::vector<const OwnWork*> own_;
  std::vector<std::thread::id> waiting_;
};

/// The calling thread waits, for as long as this lives.
class Waiting {
public:
  explicit Waiting(Occupations& all) : all_(all) { all_.wait(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { all_.go_on(); }

private:
  Occupations& all_;
};

/// "Forward(3) since 12 s, of some 20 s".
std::string text_of(const Work& work);

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/occupations.ipp>
#endif
