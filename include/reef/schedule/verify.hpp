#pragma once

#include <span>

#include <reef/core/error.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// What a machine offers each rank; 0 is no limit.
struct Limits {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
};

/// Proves, before anything starts, that the programs of all ranks together cannot deadlock (sends
/// counted as rendezvous), that every value is there in the version that is read, and that no
/// memory is exceeded; with any number of iterations of their loops.
///
/// It is verify_rank and verify_memory of each program, and verify_together of their skeletons: ranks that have but
/// their own program do the former each for itself, and one of them the latter for all.
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

/// What of that one rank's program shows by itself: it is a program at all, of one of so many ranks, and every value
/// is there.
void verify_rank(const Program& program, const Placement& placement, int ranks);

/// No memory is exceeded.
void verify_memory(const Program& program, const Placement& placement, const Limits& limits);

/// What all ranks' programs show together, of which there are the skeletons, by rank: every message has both of its
/// ends, of one size, and nobody waits in a circle.
///
/// | cost   | O(n log n) in the messages, linear in nodes and waits: 16 bytes for a node, 100 for a message; a |
/// |        | collective counts as one message of each member where its members say the same of it            |
void verify_together(std::span<const Skeleton> skeletons);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/verify.ipp>
#endif
