#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/fault_plan.hpp>
#include <reef/swarm/core/peer.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// A peer's process in the simulation, and the trainer beside it.
struct Process {
  int number = 0;  ///< of the peer in the plan; a restarted one has the same
  PeerId id{};
  std::unique_ptr<Peer> peer{};
  bool alive = true;
  std::vector<std::uint64_t> weights{};
  std::int64_t applied = 0;
  std::vector<std::int64_t> indices{};  // computed in this round
  bool computing = false;
  bool is_void = false;                    // the micro-batch in work is of a round that began anew
  std::optional<action::Close> closing{};  // the round that the trainer ends
  bool reading = false;                    // an entry of the log is on its way
  Seconds paused_until = 0;
  Seconds stalled_until = 0;
  Seconds cut_until = 0;
  Seconds deaf_until = 0;
  Seconds slow_until = 0;
  Seconds no_log_until = 0;
  Seconds no_answer_until = 0;
  bool corrupts = false;
  bool spoils = false;                 // the next micro-batch is not finite here
  bool poisons = false;                // the next micro-batch is finite nowhere
  std::set<std::int64_t> spoiled{};  // micro-batches that are not finite here

  /// Makes what was computed in the round before void.
  void begin_round() {
    indices.clear();
    closing.reset();
    is_void = computing;
  }
};

inline FaultPhase phase_of(const Process& process) {
  switch (process.peer->phase()) {
    case Phase::accumulate: return FaultPhase::accumulate;
    case Phase::exchange: return FaultPhase::exchange;
    case Phase::ready: return FaultPhase::ready;
    case Phase::absent: break;
  }
  return FaultPhase::applied;
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
