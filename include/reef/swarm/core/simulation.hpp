#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <reef/core/units.hpp>
#include <reef/swarm/core/deadlines.hpp>
#include <reef/swarm/core/fault_plan.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The world of a simulation: its links, log and computation. Durations are drawn, evenly, between the two of each pair.
struct SimulatedWorld {
  Deadlines deadlines{.beat = 0.25, .suspect = 2.5, .exchange = 10, .round = 600};
  std::int64_t global_batch = 8;
  std::int64_t pieces = 3;
  Seconds link[2] = {0.002, 0.08};        ///< delay of a message
  Seconds log[2] = {0.002, 0.05};         ///< delay of an append, of its answer, and of reading an entry
  Seconds micro_batch[2] = {0.1, 0.6};
  Seconds update[2] = {0.01, 0.1};        ///< of applying a round
  double lost = 0;                        ///< probability that a message is lost
  double doubled = 0.01;                  ///< probability that a message comes twice
  Seconds lease = 2;                      ///< for which a presence outlives its peer
  Seconds time_limit = 600;               ///< virtual time in which the rounds must be committed
};

/// What came of a simulation.
struct SimulationResult {
  std::string violation{};  ///< the first law that was broken; empty: none
  Seconds at = 0;           ///< virtual time at the end
  std::uint64_t events = 0;
  std::int64_t rounds = 0;  ///< that were committed
  std::int64_t views = 0;
  std::int64_t excluded = 0;
  std::int64_t rollbacks = 0;  ///< because the only holder of a round, in a view of one, has ended
  std::int64_t ignored = 0;  ///< entries that broke a rule
};

/// A job of real peers (Peer) in a world of one queue of events: virtual time, links that delay, double and lose messages,
/// a log whose answers are late or lost, and computation that is a sum of numbers known for each micro-batch.
///
/// Laws, tested after each event:
///
///     agreement     peers that have applied as many rounds have the same weights
///     replay        these weights are those of applying the ledger's micro-batches, round by round, alone
///     once          no micro-batch is committed twice; committed, quarantined and holes are all below the highest
///     durability    a committed result is with a peer that lives, or in its weights, unless it had one holder only
///     progress      the plan's rounds are committed and applied by all peers that live, within the time limit
///
/// | cost | 1 to 3 microseconds an event; a plan of 5 peers and 6 rounds has some thousands |
///
/// \code
/// const swarm::core::SimulationResult result = swarm::core::simulate(swarm::core::drawn_plan(1));
/// const bool holds = result.violation.empty();
/// \endcode
SimulationResult simulate(const FaultPlan& plan, const SimulatedWorld& world = {});

/// Returns the shortest plan found that still breaks a law, by leaving out faults, rounds and peers of `plan`.
FaultPlan shrink(FaultPlan plan, const SimulatedWorld& world = {});

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/simulation.ipp>
#endif
