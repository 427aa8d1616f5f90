#pragma once

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
/// are left out.
///
/// | cost | O(n * accesses * overlapping storages), once per program |
inline Dependencies derive(const Program& program, const Placement& placement) {
  const detail::Overlaps overlaps = overlaps_of(program, placement);
  detail::Deriver deriver(program, overlaps, 2);
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

}  // namespace reef::inline v0::schedule
