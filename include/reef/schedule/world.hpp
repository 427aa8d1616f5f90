#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/profile/network.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// One rank's speeds. A rate of 0 is infinite.
struct Machine {
  double flops_per_second = 0;
  double memory_bytes_per_second = 0;  ///< for what is bound by memory, and for folding messages
  double copy_bytes_per_second = 0;    ///< the link between device and host, each direction
  Seconds copy_latency = 0;
  double uplink_bytes_per_second = 0;    ///< all that it sends, over whatever links
  double downlink_bytes_per_second = 0;  ///< all that it receives
};

namespace detail {
inline Seconds over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }
}  // namespace detail

/// It copies between device and host: it is on a lane of copies, or says so.
bool copies(const Instruction& instruction);

/// What an instruction takes on its lane: its own seconds, or as fast as the machine is. On the lanes of
/// copies it is one at least.
Seconds duration_of(const Instruction& instruction, const Machine& machine);

/// One ordered pair of ranks: a full-duplex first-in-first-out link.
struct Link {
  Seconds latency = 0;
  double bytes_per_second = 0;  ///< 0 is infinite
};

/// What a simulation assumes: a machine per rank and a link per ordered pair, row by sender.
///
/// \code
/// auto world = schedule::World::uniform(3, {.flops_per_second = 1e13}, {.latency = 0.001});
/// world.links[0 * 3 + 2] = {.latency = 0.08, .bytes_per_second = 12.5e6};  // rank 0 to 2
/// \endcode
struct World {
  std::vector<Machine> machines{};
  std::vector<Link> links{};

  [[nodiscard]] Link link(int from, int to) const {
    return links[static_cast<std::size_t>(from) * machines.size() + static_cast<std::size_t>(to)];
  }

  /// P equal ranks, every link equal.
  static World uniform(int ranks, Machine machine, Link link);

  /// Machines of infinite rates, and these links between them. Throws OptionError as Network::validate.
  static World of(const profile::Network& network);
};

/// When an instruction ran, in virtual seconds from the start of the first round.
struct SimulatedSpan {
  int rank = 0;
  int round = 0;
  std::uint32_t instruction = 0;
  Lane lane = Lane::compute;
  Seconds begin = 0;
  Seconds end = 0;
  int iteration = 0;  ///< of its loop, from 0
};

/// How many iterations loops run, by rank and by the place of the loop in its program's `repeats`.
using TripCounts = std::vector<std::vector<int>>;

/// The outcome of a simulation.
struct Simulation {
  Seconds step = 0;                    ///< of the last round: from the end of the one before
  Seconds total = 0;                   ///< until everything is complete
  std::vector<double> utilisation{};   ///< by rank: compute lane busy / step, in the last round
  std::vector<Bytes> wire_bytes{};     ///< by rank: sent in one round, headers included
  std::vector<SimulatedSpan> spans{};  ///< by order of completion
  TripCounts trip_counts{};            ///< in the last round
};

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/world.ipp>
#endif
