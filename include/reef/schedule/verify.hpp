#pragma once

#include <span>

#include <reef/core/error.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// The memory that a machine offers to each rank, in bytes; 0 is no limit.
struct Limits {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
};

/// Proves, before anything starts, that the programs of all ranks together cannot deadlock
/// (sends counted as rendezvous), that every value exists in the version that is read, and that
/// no rank needs more memory than `limits` allow; for any number of iterations of their loops.
///
/// Calls verify_rank and verify_memory for each program, and verify_together for their skeletons. Where each
/// rank has only its own program, each calls the first two for that, and one rank calls verify_together for all.
///
/// | errors | ScheduleError, which names the instruction, value and version; the cycle; or the memory |
/// | cost   | that of place() and derive() for each program, and linear in instructions,              |
/// |        | dependencies and messages                                                               |
///
/// \code
/// // given: const std::vector<schedule::Program>& programs
/// schedule::verify(programs, {.device_bytes = 8_GiB});
/// \endcode
void (verify)(std::span<const Program> programs, const Limits& limits = {});

/// Proves from one rank's program alone that it is valid for one of `ranks` ranks, and that every value (version of a
/// memory block's content) exists in the version that is read. Throws ScheduleError otherwise.
void verify_rank(const Program& program, const Placement& placement, int ranks);

/// Throws ScheduleError if the memory offsets of one rank's program need more memory than the limits allow.
void verify_memory(const Program& program, const Placement& placement, const Limits& limits);

/// Proves from the skeletons of all ranks' programs (messages and their order), in order of rank, that every message
/// has a send and a receive of the same size, and that no ranks wait for each other in a cycle. Throws ScheduleError
/// otherwise.
///
/// | cost | O(n log n) in the messages, linear in nodes and waits; memory: 16 bytes for a node, 100 for a message; |
/// |      | a collective counts as one message of each member if all members describe it alike                     |
void verify_together(std::span<const Skeleton> skeletons);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/verify.ipp>
#endif
