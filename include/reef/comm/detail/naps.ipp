#pragma once

#include <sched.h>

#include <algorithm>

#include <reef/comm/detail/naps.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE void Naps::wake() {
  woken_.store(true);
  if (!napping_.load()) return;
  // It sleeps, or has yet to look at woken_. Not under the lock: on a shared core it would run at once,
  // only to wait for it.
  { const std::scoped_lock lock(mutex_); }
  changed_.notify_one();
}

REEF_INLINE std::int64_t Naps::nap_of(std::int64_t now, std::int64_t beat, std::int64_t arrival,
                                      std::int64_t quiet, std::int64_t longest, bool working) {
  const std::int64_t still = now - still_since_;
  const bool alone = now >= shared_until_;
  if (working && still < spin_ns && alone && quiet <= spin_ns) return yield(now);
  std::int64_t nap = (std::max)(beat - now, spin_ns);
  if (working) {
    const std::int64_t shortest = std::clamp(quiet, alone ? spin_ns : 2 * spin_ns, longest);
    nap = (std::min)(nap, std::clamp(still / (alone ? 32 : 16), shortest, longest));
  }
  nap = (std::min)(nap, arrival - now - (alone ? spin_ns : 0));
  if (nap > 0) return nap;
  return alone ? yield(now) : 0;
}

REEF_INLINE std::int64_t Naps::yield(std::int64_t now) {
  sched_yield();
  if (now_ns() - now > slice_ns) shared_until_ = now + shared_ns;
  return 0;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
