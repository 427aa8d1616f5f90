#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>
#include <reef/trace/span.hpp>

namespace reef::inline v0::schedule {

/// What a lane's time counts as in a trace. An optimizer's counts as other: communication that only it
/// runs beside is not hidden.
constexpr trace::Activity activity_of(Lane lane) {
  if (lane == Lane::compute) return trace::Activity::compute;
  if (lane == Lane::load || lane == Lane::evict) return trace::Activity::copy;
  return communicates(lane) ? trace::Activity::communication : trace::Activity::other;
}

/// What a simulation foresaw, as the trace that ranks leave: for trace::write_chrome and the report, beside
/// a measured one. `unit`: seconds that a second of the simulation stands for, where costs are in another
/// unit.
inline std::vector<trace::Recording> recordings_of(std::span<const Program> programs,
                                                   const Simulation& simulation, double unit = 1) {
  std::vector<trace::Recording> result(programs.size());
  std::map<int, std::size_t> place;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    trace::Recording& recording = result[i];
    recording.rank = programs[i].rank;
    place[programs[i].rank] = i;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      recording.tracks.emplace_back(name_of(static_cast<Lane>(lane)));
    }
    for (const Instruction& instruction : programs[i].round) {
      recording.names.push_back(instruction.text());
    }
  }
  for (const SimulatedSpan& span : simulation.spans) {
    trace::Recording& recording = result[place.at(span.rank)];
    recording.spans.push_back({.begin = span.begin * unit,
                               .end = span.end * unit,
                               .bytes = 0,
                               .message = 0,
                               .id = 0,
                               .cause = 0,
                               .name = static_cast<trace::Name>(span.instruction),
                               .track = static_cast<std::uint16_t>(span.lane),
                               .activity = activity_of(span.lane),
                               .role = trace::Role::none});
  }
  return result;
}

}  // namespace reef::inline v0::schedule
