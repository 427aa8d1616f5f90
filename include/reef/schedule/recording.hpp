#pragma once

#include <span>
#include <vector>

#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// Returns the activity that a lane's time counts as in a trace. An optimizer's time counts as other: communication
/// that only the optimizer runs beside is not hidden.
constexpr trace::Activity activity_of(Lane lane) {
  if (lane == Lane::compute) return trace::Activity::compute;
  if (lane == Lane::load || lane == Lane::evict) return trace::Activity::copy;
  return communicates(lane) ? trace::Activity::communication : trace::Activity::other;
}

/// Returns a simulation's spans in the form of the trace that ranks leave: for trace::write_chrome and the report,
/// beside a measured trace. `unit`: the seconds that a second of the simulation stands for, where costs are in another
/// unit.
///
/// \code
/// #include <reef/trace/chrome.hpp>
/// // given: const std::vector<schedule::Program>& programs, const schedule::World& world
/// const schedule::Simulation foreseen = schedule::simulate(programs, world);
/// trace::write_chrome("foreseen.json", schedule::recordings_of(programs, foreseen));
/// \endcode
std::vector<trace::Recording> recordings_of(std::span<const Program> programs,
                                            const Simulation& simulation, double unit = 1);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/recording.ipp>
#endif
