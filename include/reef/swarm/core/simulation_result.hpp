#pragma once

#include <cstdint>
#include <string>

#include <reef/core/units.hpp>
#include <reef/swarm/core/deadlines.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The parameters of a simulation: those of its links, log and computation. Durations are drawn uniformly between the
/// two of each pair.
struct SimulatedWorld {
  Deadlines deadlines{.beat = 0.25, .suspect = 2.5, .exchange = 10, .round = 600};
  std::int64_t global_batch = 8;
  std::int64_t pieces = 3;
  std::int64_t checkpoint = 2;  ///< rounds from one checkpoint to the next; 0: none
  Seconds link[2] = {0.002, 0.08};  ///< delay of a message, in seconds
  /// Delay of an append, of its answer, and of reading an entry, in seconds.
  Seconds log[2] = {0.002, 0.05};
  Seconds micro_batch[2] = {0.1, 0.6};
  Seconds update[2] = {0.01, 0.1};  ///< duration of applying a round to the weights, in seconds
  double lost = 0;                  ///< probability that a message is lost
  double doubled = 0.01;            ///< probability that a message comes twice
  /// Seconds for which the published presence of a peer outlives the peer.
  Seconds lease = 2;
  Seconds time_limit = 600;         ///< virtual seconds within which the rounds must be committed
};

/// The outcome of a simulation.
struct SimulationResult {
  std::string violation{};  ///< the first law that was broken, as text; empty: none
  Seconds at = 0;           ///< virtual time at the end, in seconds
  std::uint64_t events = 0;
  std::int64_t rounds = 0;  ///< number of rounds that were committed
  std::int64_t views = 0;
  std::int64_t excluded = 0;
  std::int64_t rollbacks = 0;  ///< because all who held a round have ended
  std::int64_t checkpoints = 0;  ///< that were decided
  std::int64_t restored = 0;     ///< peers that began with a state that they had kept
  std::int64_t dropped = 0;      ///< entries of the log that were dropped behind a checkpoint
  std::int64_t begun = 0;        ///< times that a peer went on with a checkpoint whose entries before were dropped
  std::int64_t ignored = 0;    ///< entries that broke a rule
  std::int64_t retried = 0;    ///< micro-batches that have failed once
  std::int64_t quarantined = 0;  ///< micro-batches that have failed twice

  /// Adds the counts and the virtual time of another simulation. The violation stays as it is.
  SimulationResult& operator+=(const SimulationResult& other) {
    at += other.at;
    events += other.events;
    rounds += other.rounds;
    views += other.views;
    excluded += other.excluded;
    rollbacks += other.rollbacks;
    checkpoints += other.checkpoints;
    restored += other.restored;
    dropped += other.dropped;
    begun += other.begun;
    ignored += other.ignored;
    retried += other.retried;
    quarantined += other.quarantined;
    return *this;
  }
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
