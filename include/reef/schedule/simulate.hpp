#pragma once

#include <span>

#include <reef/core/error.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// Simulates the programs of all ranks in virtual time, and returns the time of a step, utilisation and time spans.
///
///     up      = max(asked, uplink free) + bytes / uplink
///     left    = max(up, max(asked, link free) + bytes / bandwidth)
///     reaches = left + latency - bytes / min(uplink, bandwidth)
///     arrival = max(left + latency, max(reaches, downlink free) + bytes / downlink)
///
/// A message is asked for at the time that the table states. Its bytes pass through the sender's uplink,
/// the link and the receiver's downlink at once, which are busy until up, left and arrival. An uplink and a
/// link serve messages in the order in which they are asked for (at the same time, those to rank + 1,
/// rank + 2, ... first, as collectives send them), a downlink in the order in which they reach it. Where uplinks
/// and downlinks are infinitely fast, arrival = max(asked, link free) + bytes / bandwidth + latency.
///
/// | message         | asked                   | counts as through for the sender | for the receiver  |
/// |-----------------|-------------------------|----------------------------------|------------------ |
/// | of a collective | its sender has started  | when it has left                 | at arrival        |
/// | any other       | both ends have started  | at arrival                       | at arrival        |
///
/// So the last rank to start a collective waits for no other: comm's collectives send at
/// once. A held message outside a collective waits for both ends, as publications count
/// it; a posted one does not wait for the receiver, which has a free slot for it by then.
///
/// An instruction starts when its lane is free and its dependencies have ended; an instruction that
/// communicates ends after its last message is through plus its own cost (a fold). The lane of a posted
/// instruction is free when the instruction has started. A loop tests, at the time that Repeat defines,
/// whether its `until` has ended; given `replay`, it runs the number of iterations stated there in
/// every round, and a shared loop the largest number that `replay` states for one of its ranks.
///
/// `placements`: the placement that `place` returned for each program.
///
/// | errors | ScheduleError for a deadlock, or an invalid cost, world or replay; verify() throws a    |
/// |        | more detailed error                                                                     |
/// | cost   | O(rounds * (instructions + messages + iterations * bodies) * log)                       |
/// | order  | deterministic: events of one time in the order in which they arose, tests of loops last |
///
/// \code
/// // given: const std::vector<schedule::Program>& programs
/// const auto world = schedule::World::uniform(2, {.flops_per_second = 1e13},
///                                             {.latency = 0.02, .bytes_per_second = 12.5e6});
/// const Seconds step = schedule::simulate(programs, world).step;
/// \endcode
Simulation simulate(std::span<const Program> programs, std::span<const Placement> placements,
                    const World& world, int rounds = 2, const TripCounts& replay = {});

/// Gives the programs' memory blocks (storages) offsets by place(), and simulates the programs in virtual time: see the
/// overload with placements.
Simulation simulate(std::span<const Program> programs, const World& world, int rounds = 2,
                    const TripCounts& replay = {});

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/simulate.ipp>
#endif
