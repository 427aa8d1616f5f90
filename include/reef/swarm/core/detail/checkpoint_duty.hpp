#pragma once

#include <reef/swarm/core/detail/duty.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// A peer's part in checkpoints: to begin with a state that was kept, to decide on one, and to leave if the own state
/// is another one.
struct CheckpointDuty : Duty {
  /// Begins with the state of the last checkpoint, if an earlier process of this peer has kept it.
  void restore();
  /// Leaves if the own state is another one than that of the last checkpoint.
  void compare();
  /// Appends a checkpoint of the newest state that enough members have kept.
  void decide();
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/detail/checkpoint_duty.ipp>
#endif
