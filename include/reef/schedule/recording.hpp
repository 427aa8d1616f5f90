#pragma once

#include <span>
#include <vector>

#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// Returns the activity (computation, communication or other) as which a trace counts the time of a queue. The queue of
/// the optimizer counts as other: communication during which only the optimizer computes is not hidden.
constexpr trace::Activity activity_of(Lane lane) {
  if (lane == Lane::compute) return trace::Activity::compute;
  if (lane == Lane::load || lane == Lane::evict) return trace::Activity::copy;
  return communicates(lane) ? trace::Activity::communication : trace::Activity::other;
}

/// Returns a simulation's time spans in the form in which ranks record a trace: for trace::write_chrome and the report,
/// beside a measured trace. `unit` is the number of seconds for which a second of the simulation stands, if costs are
/// in another unit.
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
