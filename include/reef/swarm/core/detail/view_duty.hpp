#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <reef/swarm/core/detail/duty.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// A peer's part in who the members are: to say whom it hears, to append views, to leave.
struct ViewDuty : Duty {
  void leave();
  [[nodiscard]] std::vector<PeerId> reach() const;
  /// Returns true if this peer, which is no member, could be one now: it has the newest weights.
  [[nodiscard]] bool could_join() const;
  [[nodiscard]] PeerPresence own_presence() const;
  void change_view();
  void announce();
  void beat();
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/detail/view_duty.ipp>
#endif
