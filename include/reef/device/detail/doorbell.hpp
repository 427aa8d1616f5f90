#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#endif

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace device::detail {

/// Tells the core that this is a waiting loop.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// How long a waiting thread may keep looking before it sleeps.
inline constexpr std::chrono::microseconds longest_spin{50};

/// Threads sleep here until something happened that they look for: an event count.
///
/// | order  | what was written before ring() is seen by a look() that saw the ring            |
/// | cost   | ring() with nobody asleep is two atomic operations, no system call              |
/// | wakes  | spurious wakes are possible, lost ones are not: the sleeper registers before it |
/// |        | looks again, the ringer counts up before it looks for sleepers                  |
class Doorbell {
public:
  [[nodiscard]] std::uint32_t look() const { return word_.load(); }

  void ring() {
    word_.fetch_add(1);
    if (sleepers_.load() != 0) wake();
  }

  /// Returns when the bell rang after look() gave `seen`, or after `timeout` (none: sleeps on).
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout = {}) {
    sleepers_.fetch_add(1);
    if (word_.load() == seen) sleep(seen, timeout);
    sleepers_.fetch_sub(1);
  }

  /// As wait(), but looks for `spin` before it sleeps: a microsecond without a break, then between
  /// two turns of other threads, of which one may be the one to ring.
  void spin_then_wait(std::uint32_t seen, std::chrono::nanoseconds spin,
                      std::chrono::nanoseconds timeout = {}) {
    const auto end = std::chrono::steady_clock::now() + spin;
    for (int i = 0; i < 64; ++i) {
      if (word_.load(std::memory_order_acquire) != seen) return;
      pause();
    }
    do {
      std::this_thread::yield();
      if (word_.load(std::memory_order_acquire) != seen) return;
    } while (std::chrono::steady_clock::now() < end);
    wait(seen, timeout);
  }

  /// Returns when happened() is true; the one who makes it true rings. At every `period` (none:
  /// never) it is asked again without a ring.
  template <class Predicate>
  void await(Predicate&& happened, std::chrono::nanoseconds spin,
             std::chrono::nanoseconds period = {}) {
    bool rang = true;
    while (true) {
      const std::uint32_t seen = look();
      if (happened()) return;
      // After a ring the next one may be near. After a period without one, nothing is.
      rang ? spin_then_wait(seen, spin, period) : wait(seen, period);
      rang = look() != seen;
    }
  }

private:
#if defined(__linux__)
  static_assert(sizeof(std::atomic<std::uint32_t>) == 4);

  void sleep(std::uint32_t seen, std::chrono::nanoseconds timeout) {
    timespec time{};
    time.tv_sec = static_cast<std::time_t>(timeout.count() / 1'000'000'000);
    time.tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000);
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, seen, timeout.count() == 0 ? nullptr : &time,
            nullptr, 0);
  }
  void wake() { syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0); }
#else
  // A sleep with a timeout cannot be had from std::atomic: it becomes a nap of the poll.
  void sleep(std::uint32_t seen, std::chrono::nanoseconds timeout) {
    if (timeout.count() == 0) {
      word_.wait(seen);
    } else {
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, longest_spin));
    }
  }
  void wake() { word_.notify_all(); }
#endif

  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace device::detail
}  // namespace v0
}  // namespace reef
