#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/language.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// A fault that a simulation or test inflicts on a job: on one peer, when it first reaches a given round and phase, or
/// at a given time.
///
/// | kill      | the process ends at once; nothing of it is left                                             |
/// | restart   | kill, and the same name starts again `seconds` later, as a new incarnation                   |
/// | pause     | the process stands still for `seconds`, and then goes on as if nothing were                  |
/// | stall     | its computation stands still for `seconds`; it goes on answering                             |
/// | cut_off   | for `seconds`, no message between it and the other peers arrives; the log answers it          |
/// | deaf      | for `seconds`, it receives no message of others, who receive its own                         |
/// | no_log    | for `seconds`, it reaches the log no more                                                    |
/// | isolate   | for `seconds`, cut_off and no_log                                                            |
/// | no_answer | the answers to its appends are lost for `seconds`, though the entries may land               |
/// | corrupt   | the bytes of the next part that it sends are others                                          |
/// | leave     | it leaves in order                                                                           |
/// | join      | a further peer starts                                                                        |
/// | spoil     | the gradient of the next micro-batch that it takes is not finite; of another peer it is      |
/// | poison    | the gradient of the next micro-batch that it takes is not finite, whoever computes it        |
/// | slow      | for `seconds`, the parts that it sends stay on its link; they arrive behind that             |
enum class FaultKind : std::uint8_t {
  kill,
  restart,
  pause,
  stall,
  cut_off,
  deaf,
  no_log,
  isolate,
  no_answer,
  corrupt,
  leave,
  join,
  spoil,
  poison,
  slow
};

/// The phase of a round of averaging, at a peer, in which a fault is inflicted on that peer.
enum class FaultPhase : std::uint8_t { accumulate, exchange, ready, applied };

struct Fault {
  FaultKind kind = FaultKind::kill;
  int peer = 0;
  std::int64_t round = 0;
  FaultPhase phase = FaultPhase::accumulate;
  Seconds seconds = 5;

  friend bool operator==(const Fault&, const Fault&) = default;
};

/// The faults of one run of a job. Equal plans and seeds give equal simulations.
struct FaultPlan {
  std::uint64_t seed = 1;  ///< seed of all random delays and durations
  int peers = 3;
  std::int64_t rounds = 6;  ///< number of rounds that the job is to commit
  std::vector<Fault> faults{};

  friend bool operator==(const FaultPlan&, const FaultPlan&) = default;
};

/// Returns random faults for one simulated run, drawn from a seed: 2 to 6 peers, and up to 4 faults, of which at least
/// two peers survive.
///
/// \code
/// const swarm::core::FaultPlan plan = swarm::core::drawn_plan(7);
/// const std::string text = swarm::core::to_text(plan);
/// \endcode
FaultPlan drawn_plan(std::uint64_t seed);

/// Returns a plan of faults as text that can be copied into a test: one line for each fault.
std::string to_text(const FaultPlan& plan);

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/fault_plan.ipp>
#endif
