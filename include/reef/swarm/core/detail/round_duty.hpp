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

/// A member's part in a round: to close it, to exchange, to reduce, and to append its commit.
struct RoundDuty : Duty {
  /// Gives the trainer the results of the next committed round that it lacks, once all of them are here and are those
  /// whose root the log has.
  void apply_committed();
  void close_round();
  /// Sends the own contribution to whom it has not been sent: the offer to all members, parts to their reducers.
  void exchange();
  void reduce();
  /// Appends what the round needs: its commit once enough members hold its results; a list of fewer contributors, where
  /// some have not come in time.
  void agree();
  void exclude();
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/detail/round_duty.ipp>
#endif
