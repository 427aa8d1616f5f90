#pragma once

#include <span>

#include <reef/core/error.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule {

/// What a machine offers each rank; 0 is no limit.
struct Limits {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
};

/// Proves, before anything starts, that the programs of all ranks together cannot deadlock (sends
/// counted as rendezvous), that every value is there in the version that is read, and that no
/// memory is exceeded; with any number of iterations of their loops.
///
/// | errors | ScheduleError: the instruction, value and version; the cycle in words; the memory |
/// | cost   | of placing the programs, and of deriving their dependencies; else linear in        |
/// |        | instructions, dependencies, messages                                              |
///
/// \code
/// // given: const std::vector<schedule::Program>& programs
/// schedule::verify(programs, {.device_bytes = 8_GiB});
/// \endcode
void verify(std::span<const Program> programs, const Limits& limits = {});

}  // namespace reef::inline v0::schedule

#ifndef REEF_COMPILED
#include <reef/schedule/verify.ipp>
#endif
