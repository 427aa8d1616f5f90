#pragma once

#include <signal.h>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// SIGINT and SIGTERM, blocked in the threads that are started from now on, and waited for. For the main thread, before
/// it has started others.
class EndSignals {
public:
  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  /// Returns true once one of the two has come, false after `most` seconds without.
  [[nodiscard]] bool wait(Seconds most) const;

private:
  ::sigset_t ends_;
  ::sigset_t before_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/end_signals.ipp>
#endif
