#pragma once

#include <span>

#include <reef/core/error.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// The memory that a machine offers each rank; 0 is no limit.
struct Limits {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
};

/// Proves, before anything starts, that the programs of all ranks together cannot deadlock (sends
/// counted as rendezvous), that every value exists in the version that is read, and that no rank needs more memory
/// than `limits` allow; with any number of iterations of their loops.
///
/// Calls verify_rank and verify_memory for each program, and verify_together for their skeletons. Ranks that have only
/// their own program call the first two each for itself, and one of them calls verify_together for all.
///
/// | errors | ScheduleError: the instruction, value and version; the cycle in words; the memory |
/// | cost   | of placing the programs, and of deriving their dependencies; else linear in        |
/// |        | instructions, dependencies, messages                                              |
///
/// \code
/// // given: const std::vector<schedule::Program>& programs
/// schedule::verify(programs, {.device_bytes = 8_GiB});
/// \endcode
void (verify)(std::span<const Program> programs, const Limits& limits = {});

/// Proves what one rank's program shows by itself: the program is valid for one of `ranks` ranks, and every value
/// exists in the version that is read. Throws ScheduleError where that does not hold.
void verify_rank(const Program& program, const Placement& placement, int ranks);

/// Throws ScheduleError if the placement of one rank's program needs more memory than the limits allow.
void verify_memory(const Program& program, const Placement& placement, const Limits& limits);

/// Proves what the programs of all ranks show together, from their skeletons, by rank: every message has both of its
/// ends, of one size, and no ranks wait in a cycle. Throws ScheduleError where that does not hold.
///
/// | cost   | O(n log n) in the messages, linear in nodes and waits: 16 bytes for a node, 100 for a message; a |
/// |        | collective counts as one message of each member if its members describe it alike                |
void verify_together(std::span<const Skeleton> skeletons);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/verify.ipp>
#endif
