#pragma once

#include <string>

#include <reef/core/language.hpp>
#include <reef/swarm/core/fault_plan.hpp>
#include <reef/swarm/core/simulation_result.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// Simulates a job of real peers (core::Peer) on one queue of events: virtual time, links that delay, double and lose
/// messages, a log whose answers are late or lost, and computation that is a sum of numbers known for each micro-batch.
///
/// Laws, tested after each event:
///
///     agreement     peers that have applied as many rounds have the same weights
///     replay        these weights are those of applying the ledger's micro-batches, round by round, alone
///     once          no micro-batch is committed twice; committed, quarantined and holes are all below the highest
///     finite        no micro-batch whose gradient is not finite is committed as finite
///     retry         a micro-batch is quarantined when, and only when, it has failed twice: with two peers, unless the
///                   round was dealt to one alone
///     durability    a round is committed with min(n, max(2, majority)) of n holders; as long as one of these lives, a
///                   living peer has the result, or weights with it
///     memory        a peer keeps three encoded models at most, of rounds
///     checkpoint    a checkpoint in the log is the state that the ledger gives, and its holders have kept it
///     summary       who begins with a checkpoint has the state of who has read all entries
///     progress      the plan's rounds are committed and applied by all peers that live, within the time limit
///
/// | cost | 1 to 3 microseconds an event; a plan of 5 peers and 6 rounds has some thousands |
///
/// \code
/// const swarm::core::SimulationResult result = swarm::core::simulate(swarm::core::drawn_plan(1));
/// const bool holds = result.violation.empty();
/// \endcode
SimulationResult simulate(const FaultPlan& plan, const SimulatedWorld& world = {});

/// Returns the shortest plan found that still breaks a law of the simulation, by leaving out faults, rounds and peers
/// of `plan`.
FaultPlan shrink(FaultPlan plan, const SimulatedWorld& world = {});

/// Returns a report of a plan that breaks a law: the plan, the law, and the shortest plan found that breaks one.
std::string report_of_violation(const FaultPlan& plan, const SimulatedWorld& world = {});

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/simulation.ipp>
#endif
