#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// The future of a simulation: functions and their times, those of one time in the order in which they came.
class EventQueue {
public:
  [[nodiscard]] bool empty() const { return queue_.empty(); }
  [[nodiscard]] Seconds now() const { return now_; }

  void at(Seconds when, std::function<void()> run) { queue_.push({when, order_++, std::move(run)}); }
  void after(Seconds delay, std::function<void()> run) { at(now_ + delay, std::move(run)); }

  /// Takes the next function out, and sets the time to its time.
  std::function<void()> next() {
    // The top is moved from: it is popped at once, and its order does not depend on the function.
    Timed timed = std::move(const_cast<Timed&>(queue_.top()));
    queue_.pop();
    now_ = timed.at;
    return std::move(timed.run);
  }

private:
  struct Timed {
    Seconds at;
    std::uint64_t order;
    std::function<void()> run;

    friend bool operator<(const Timed& a, const Timed& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };

  Seconds now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Timed> queue_;
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
