#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include <reef/comm/detail/clock.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// When the progress thread rests, and for how long.
///
/// While something moves it does not. Then it yields for 50 us, then naps for 1/32 of the time that
/// nothing has moved, 50 us to 8 ms: what it finds late, it finds late by 3 % at most. A wait of a
/// second takes 290 naps, each further second 125; what a nap costs is waking up, 30 to 50 us on a
/// virtual machine. An arrival whose time is known it awaits awake, the last 50 us. With nothing to do
/// it sleeps until the next sign of life is due, or somebody wakes it.
///
/// Who yields a core that another thread computes on gets it back after that one's time slice, some
/// milliseconds; who wakes from a nap gets it at once, and costs that thread more than itself. So for a
/// second after a yield that took half a millisecond it naps where it would yield, and naps are twice as
/// long. Where there is nothing to find so soon, on links that take their time or while all tasks wait for
/// what wakes it, it naps at once, and as long as the caller says that nothing is missed.
class Naps {
public:
  /// Ends a nap, or the next one before it begins: who wakes while the thread looks is not missed. Any
  /// thread; next to nothing when there is no nap.
  void wake();

  /// The progress thread, once a round; at the latest it goes on at `beat` or `arrival`. For `quiet` ns
  /// nothing is missed that is not awaited there. `busy` says whether there are tasks; while there are, no nap
  /// lasts more than `longest` ns.
  template <class Busy>
  void rest(bool moved, std::int64_t beat, std::int64_t arrival, std::int64_t quiet, Busy&& busy,
            std::int64_t longest = longest_ns) {
    const std::int64_t now = now_ns();
    if (moved) {
      still_since_ = now;
    } else if (const std::int64_t nap =
                   nap_of(now, beat, arrival, quiet, (std::min)(longest, longest_ns), busy());
               nap > 0) {
      std::unique_lock lock(mutex_);
      napping_.store(true);
      changed_.wait_for(lock, std::chrono::nanoseconds(nap), [this] { return woken_.load(); });
      napping_.store(false);
    }
    woken_.exchange(false);  // what it was woken for is seen by the look that follows
  }

  /// Lets others have the core, and notices if they take it. Any thread.
  void give_way() { yield(now_ns()); }

  /// Nobody else computes on this core, as far as it has noticed.
  [[nodiscard]] bool alone() const { return now_ns() >= shared_until_; }

  /// What is awaited awake, at most.
  static constexpr std::int64_t spin_ns = 50'000;
  static constexpr std::int64_t longest_ns = 8'000'000;

private:
  /// How long to nap; 0 after it has yielded instead, or when there is something to look at.
  std::int64_t nap_of(std::int64_t now, std::int64_t beat, std::int64_t arrival, std::int64_t quiet,
                      std::int64_t longest, bool working);

  std::int64_t yield(std::int64_t now);

  static constexpr std::int64_t slice_ns = 500'000;
  static constexpr std::int64_t shared_ns = 1'000'000'000;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> napping_{false};
  std::atomic<bool> woken_{false};
  std::int64_t still_since_ = 0;
  std::atomic<std::int64_t> shared_until_{0};  ///< the core is taken to be shared until then
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/naps.ipp>
#endif
