#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <reef/core/inline.hpp>
#include <reef/swarm/log/detail/end_signals.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE EndSignals::EndSignals() {
  ::sigemptyset(&ends_);
  ::sigaddset(&ends_, SIGINT);
  ::sigaddset(&ends_, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &ends_, &before_);
}

REEF_INLINE EndSignals::~EndSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

REEF_INLINE bool EndSignals::wait(Seconds most) const {
  const auto whole = static_cast<::time_t>(most);
  const ::timespec time{whole, static_cast<long>((most - static_cast<Seconds>(whole)) * 1e9)};
  return ::sigtimedwait(&ends_, nullptr, &time) > 0;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
