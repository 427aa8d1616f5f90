#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>

#include <reef/core/config.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// The state of the signal handler, all of it lock-free.
struct REEF_OF_THE_PROCESS Signalled {
  static inline constexpr std::array<int, 4> numbers{SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  static inline std::atomic<int> first{0};
  /// The times of the first signal from any process, and of the first from the process that started this one; 0: none.
  static inline std::atomic<std::int64_t> from_anybody{0};
  static inline std::atomic<std::int64_t> from_launcher{0};
  static inline std::atomic<bool> taken{false};
  static_assert(std::atomic<int>::is_always_lock_free);
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);

  static std::int64_t now_ns();

  /// The time within which several signals count as one: a terminal, timeout(1) and several threads may each deliver
  /// what somebody sent once.
  static constexpr std::int64_t one_event_ns = 500'000'000;

  static void handle(int signal, ::siginfo_t* info, void* /*context*/);

  static void reset();
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
