#pragma once

#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// Returns the skeleton (messages and order of the instructions) of a valid program (verify_rank), given its
/// dependencies.
///
/// | cost | linear in instructions, dependencies and messages                                    |
/// | size | no more nodes and waits than the program has instructions and dependencies; none for |
/// |      | micro-batches without messages                                                       |
///
/// \code
/// // given: const schedule::Program& program
/// const schedule::Dependencies waits = schedule::derive(program, schedule::place(program));
/// const schedule::Skeleton skeleton = schedule::skeleton_of(program, waits);
/// \endcode
Skeleton skeleton_of(const Program& program, const Dependencies& dependencies);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/skeleton_of.ipp>
#endif
