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

/// The speeds of one simulated rank. A rate of 0 is infinite.
struct Machine {
  double flops_per_second = 0;
  double memory_bytes_per_second = 0;  ///< the rate of instructions bound by memory, and of summing received messages
  double copy_bytes_per_second = 0;    ///< rate of the link between device and host, in each direction
  Seconds copy_latency = 0;
  double uplink_bytes_per_second = 0;    ///< rate of all that the rank sends, over all links together
  double downlink_bytes_per_second = 0;  ///< rate of all that the rank receives, over all links together
};

namespace detail {
inline Seconds over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }
}  // namespace detail

/// Returns true if an instruction copies between device and host: it is in a queue of copies, or its cost has copies.
bool copies(const Instruction& instruction);

/// Returns the seconds that an instruction takes in its queue: its measured seconds, or else those at the machine's
/// rates. An instruction in a queue of copies is one copy at least.
Seconds duration_of(const Instruction& instruction, const Machine& machine);

/// The simulated link of one ordered pair of ranks: full-duplex, first in first out.
struct Link {
  Seconds latency = 0;
  double bytes_per_second = 0;  ///< rate of the link between two ranks; 0: infinite
};

/// The hardware that a simulation assumes: a machine per rank and a link per ordered pair of ranks, row-major with the
/// sender first.
///
/// \code
/// auto world = schedule::World::uniform(3, {.flops_per_second = 1e13}, {.latency = 0.001});
/// world.links[0 * 3 + 2] = {.latency = 0.08, .bytes_per_second = 12.5e6};  // rank 0 to 2
/// const auto homes = schedule::World::of(profile::Network::uniform(3, 0.02, 12.5e6));
/// \endcode
struct World {
  std::vector<Machine> machines{};
  std::vector<Link> links{};

  [[nodiscard]] Link link(int from, int to) const {
    return links[static_cast<std::size_t>(from) * machines.size() + static_cast<std::size_t>(to)];
  }

  /// Returns the hardware of a simulation with P equal ranks and equal links.
  static World uniform(int ranks, Machine machine, Link link);

  /// Returns a world with the links, uplinks and downlinks of a network, whose machines compute and copy infinitely
  /// fast. Throws OptionError as Network::validate does.
  static World of(const profile::Network& network);
};

/// The span of time in which an instruction ran, in virtual seconds since the program's first run began.
struct SimulatedSpan {
  int rank = 0;
  int round = 0;
  std::uint32_t instruction = 0;
  Lane lane = Lane::compute;
  Seconds begin = 0;
  Seconds end = 0;
  int iteration = 0;  ///< iteration of the loop that contains the instruction, from 0
};

/// The number of iterations of each loop, by rank and by the loop's index in its program's `repeats`.
using TripCounts = std::vector<std::vector<int>>;

/// The outcome of a simulation of ranks' programs.
struct Simulation {
  Seconds step = 0;                    ///< seconds of the last step: from the end of the one before
  Seconds total = 0;                   ///< seconds until all instructions of all steps are complete
  std::vector<double> utilisation{};   ///< fraction of the last step in which each rank's compute queue was busy
  std::vector<Bytes> wire_bytes{};     ///< bytes that each rank sends in one step, headers included
  std::vector<SimulatedSpan> spans{};  ///< time spans of all instructions, in the order of completion
  TripCounts trip_counts{};            ///< number of iterations of each loop in the last step
};

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/world.ipp>
#endif
