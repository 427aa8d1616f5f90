#pragma once

#include <atomic>
#include <cstdint>

#include <reef/device/detail/doorbell.hpp>
#include <reef/device/detail/host_device.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// Counts completions. Completion n has happened when epoch() >= n; ready(0) is always true.
///
/// | order  | what came before a completion is seen by whoever saw that completion              |
/// | threads| all members from any thread; a thread that waits spins at most 50 us, then sleeps |
class Host::Event {
public:
  Event() = default;
  explicit Event(Host& /*device*/) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    // Whoever waited may destroy the event while signal() is still on its way out.
    while (state_.load(std::memory_order_acquire) % completion != 0) detail::pause();
  }

  /// Completions so far.
  [[nodiscard]] std::uint64_t epoch() const { return state_.load(std::memory_order_acquire) / completion; }

  /// One more completion.
  void signal() {
    state_.fetch_add(completion + 1, std::memory_order_release);
    bell_.ring();
    state_.fetch_sub(1, std::memory_order_release);
  }

  [[nodiscard]] bool ready(std::uint64_t epoch) const { return this->epoch() >= epoch; }

  /// Blocks the calling thread until completion `epoch`.
  void synchronize(std::uint64_t epoch) {
    bell_.await([&] { return ready(epoch); }, detail::longest_spin);
  }

private:
  friend class Lane;
  static constexpr std::uint64_t completion = 1 << 16;

  /// The completions times `completion`, and the threads that are within signal(): one atomic operation for both.
  std::atomic<std::uint64_t> state_{0};
  detail::Doorbell bell_;
};

}  // namespace device
}  // namespace v0
}  // namespace reef
