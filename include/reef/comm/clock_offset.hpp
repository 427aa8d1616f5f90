#pragma once

#include <string>

#include <reef/comm/progress.hpp>
#include <reef/core/units.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// Returns a name of this machine's steady clock, equal in all of its processes; "" if the clock has none.
std::string name_of_clock();

/// Returns the steady clock of rank 0 minus that of this rank: the time by which trace::shift moves its recording.
///
///     offset = t - (begin + end) / 2     t: rank 0's time, requested at begin, received at end
///
/// | who   | all ranks call it, and request rank 0's time one after the other; blocks |
/// | same  | exactly 0 where the clock is that of rank 0                              |
/// | error | at most (end - begin) / 2, the least of 16 exchanges                     |
///
/// \code
/// #include <reef/trace/encoding.hpp>
/// // given: comm::Progress& progress, trace::Recording& recording
/// trace::shift(recording, comm::clock_offset(progress));
/// \endcode
Seconds clock_offset(Progress& progress, const std::string& clock = name_of_clock(),
                     Seconds (*now)() = trace::now);

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/clock_offset.ipp>
#endif
