#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/simulator.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/skeleton_of.hpp>
#include <reef/schedule/verify.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

namespace detail {

inline void check_replay(const Program& program, const TripCounts& replay) {
  if (replay.empty()) return;
  const auto rank = static_cast<std::size_t>(program.rank);
  const bool fits = rank < replay.size() && replay[rank].size() == program.repeats.size() &&
                    std::all_of(replay[rank].begin(), replay[rank].end(),
                                [](int iterations) { return iterations >= 0; });
  if (fits) return;
  throw ScheduleError(
      "reef::schedule::simulate: the replay has no count of iterations for each of the ",
      program.repeats.size(), " loops of rank ", rank,
      ".\n  fix: by rank and loop, 0 or more: Simulation::trip_counts.");
}

}  // namespace detail

REEF_INLINE Simulation simulate(std::span<const Program> programs,
                                std::span<const Placement> placements, const World& world,
                                int rounds, const TripCounts& replay) {
  const std::size_t ranks = world.machines.size();
  if (placements.size() != programs.size()) {
    throw ScheduleError("reef::schedule::simulate: ", placements.size(), " placements of ",
                        programs.size(), " programs.\n  fix: place() of each.");
  }
  if (rounds < 1 || world.links.size() != ranks * ranks) {
    throw ScheduleError("reef::schedule::simulate: ", rounds, " rounds in a world of ", ranks,
                        " machines and ", world.links.size(),
                        " links.\n  fix: at least one round, and a link for every ordered pair.");
  }
  detail::check_structure(programs);
  bool repeats = false;
  std::vector<Dependencies> dependencies;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const Program& program = programs[p];
    for (const Instruction& instruction : program.round) {
      if (!is_finite(instruction.cost.seconds) || !is_finite(instruction.cost.flops) ||
          instruction.cost.flops < 0) {
        throw ScheduleError(
            "reef::schedule::simulate: ", detail::who(program, instruction),
            " has a cost that is no number.\n  fix: finite seconds, and flops of 0 or more.");
      }
    }
    if (program.rank < 0 || static_cast<std::size_t>(program.rank) >= world.machines.size()) {
      throw ScheduleError("reef::schedule::simulate: rank ", program.rank,
                          " has no machine in a world of ", world.machines.size(),
                          ".\n  fix: a machine for each rank.");
    }
    detail::check_replay(program, replay);
    dependencies.push_back(derive(program, placements[p]));
    repeats = repeats || !program.repeats.empty();
  }
  // A loop until what never ends would never end.
  std::vector<Skeleton> skeletons(repeats ? programs.size() : 0);
  for (std::size_t p = 0; p < skeletons.size(); ++p) {
    skeletons[static_cast<std::size_t>(programs[p].rank)] = skeleton_of(programs[p], dependencies[p]);
  }
  verify_together(skeletons);
  return detail::Simulator(programs, dependencies, world, rounds, replay).run();
}

REEF_INLINE Simulation simulate(std::span<const Program> programs, const World& world, int rounds,
                                const TripCounts& replay) {
  detail::check_structure(programs);
  std::vector<Placement> placements;
  for (const Program& program : programs) placements.push_back(place(program));
  return simulate(programs, placements, world, rounds, replay);
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
