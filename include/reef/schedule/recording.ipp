#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include <reef/core/inline.hpp>
#include <reef/schedule/recording.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

REEF_INLINE std::vector<trace::Recording> recordings_of(std::span<const Program> programs,
                                                        const Simulation& simulation, double unit) {
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

}  // namespace schedule
}  // namespace v0
}  // namespace reef
