#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/schedule/detail/deriver.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule {

/// An instruction of another lane that must be complete before one may start.
struct Dependency {
  std::uint32_t instruction = 0;
  bool previous_round = false;

  friend constexpr bool operator==(const Dependency&, const Dependency&) = default;
};

/// By instruction of the round: what it waits for, beyond its predecessor on its own lane.
using Dependencies = std::vector<std::vector<Dependency>>;

/// Derives who waits for whom from what the instructions read and write.
///
/// Two instructions that touch the same bytes, one of them writing, run in the order of the program,
/// in one round and from one round to the next: read after write, write after read, write after write,
/// and accumulations one after the other. Waits that follow from others, or from the order of a lane,
/// are left out. From outside a loop its last instruction stands for all of its iterations.
///
/// | cost | O(accesses * log storages), and for each the ranges of its bytes that were accessed apart |
inline Dependencies derive(const Program& program, const Placement& placement) {
  detail::Deriver deriver(program, placement.addresses(program), 2);
  const auto count = static_cast<std::int64_t>(program.round.size());
  Dependencies result(program.round.size());
  for (std::int64_t i = 0; i < 2 * count; ++i) {
    const std::vector<std::int64_t> waits = deriver.step(i);
    if (i < count) continue;
    for (const std::int64_t wait : waits) {
      result[static_cast<std::size_t>(i - count)].push_back(
          {static_cast<std::uint32_t>(wait % count), wait < count});
    }
  }
  return result;
}

/// An instruction that is complete before another may start.
struct Precedence {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool previous_round = false;
  bool in_iteration = false;  ///< both of one iteration; else a body's ends stand for its loop

  friend constexpr bool operator==(const Precedence&, const Precedence&) = default;
};

/// All that orders the instructions of a round and the round before: `dependencies` and the lanes. A
/// loop starts after all that its body waits for.
inline std::vector<Precedence> precedences(const Program& program,
                                           const Dependencies& dependencies) {
  const std::vector<std::uint32_t> loops = loop_by_instruction(program);
  std::vector<Precedence> result;
  const auto order = [&](Dependency wait, std::uint32_t i) {
    const std::uint32_t before = loops[wait.instruction];
    const std::uint32_t after = loops[i];
    const bool in_iteration = before == after && after != no_loop && !wait.previous_round;
    const bool whole = !in_iteration;
    result.push_back(
        {whole && before != no_loop ? program.repeats[before].end - 1 : wait.instruction,
         whole && after != no_loop ? program.repeats[after].begin : i, wait.previous_round,
         in_iteration});
  };
  std::array<Dependency, lane_count> last;
  for (std::uint32_t i = 0; i < program.round.size(); ++i) {
    const auto lane = static_cast<std::size_t>(program.round[i].lane);
    last[lane] = {i, true};
  }
  for (std::uint32_t i = 0; i < program.round.size(); ++i) {
    const auto lane = static_cast<std::size_t>(program.round[i].lane);
    order(last[lane], i);
    last[lane] = {i, false};
    for (const Dependency wait : dependencies[i]) order(wait, i);
  }
  return result;
}

}  // namespace reef::inline v0::schedule
