#pragma once

#include <array>
#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/deriver.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

REEF_INLINE Dependencies detail::derive_at(const Program& program,
                                           const std::vector<Bytes>& addresses, bool free) {
  Deriver deriver(program, addresses, 2, free);
  const auto count = static_cast<std::int64_t>(program.round.size());
  Dependencies result(program.round.size());
  for (std::int64_t i = 0; i < 2 * count; ++i) {
    const std::vector<std::int64_t>& waits = deriver.step(i);
    if (i < count) continue;
    for (const std::int64_t wait : waits) {
      result[static_cast<std::size_t>(i - count)].push_back(
          {static_cast<std::uint32_t>(wait % count), wait < count});
    }
  }
  return result;
}

REEF_INLINE Dependencies detail::derive_in_round(const Program& program) {
  Deriver deriver(program, addresses_by_region(program), 1);
  Dependencies result(program.round.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (const std::int64_t wait : deriver.step(static_cast<std::int64_t>(i))) {
      result[i].push_back({static_cast<std::uint32_t>(wait), false});
    }
  }
  return result;
}

REEF_INLINE Dependencies derive(const Program& program, const Placement& placement) {
  return detail::derive_at(program, placement.addresses(program), false);
}

REEF_INLINE std::vector<Precedence> precedences(const Program& program,
                                                const Dependencies& dependencies) {
  const std::vector<std::uint32_t> loops = loop_by_instruction(program);
  std::vector<Precedence> result;
  const auto order = [&](Dependency wait, std::uint32_t i, bool by_lane) {
    const std::uint32_t before = loops[wait.instruction];
    const std::uint32_t after = loops[i];
    const bool in_iteration = before == after && after != no_loop && !wait.previous_round;
    const bool behind_loop = !in_iteration && before != no_loop;
    const bool posted = by_lane && !behind_loop && program.round[wait.instruction].is_posted();
    result.push_back({behind_loop ? program.repeats[before].end - 1 : wait.instruction,
                      !in_iteration && after != no_loop ? program.repeats[after].begin : i, wait.previous_round,
                      in_iteration, posted, by_lane});
  };
  std::array<Dependency, lane_count> last;
  for (std::uint32_t i = 0; i < program.round.size(); ++i) {
    const auto lane = static_cast<std::size_t>(program.round[i].lane);
    last[lane] = {i, true};
  }
  for (std::uint32_t i = 0; i < program.round.size(); ++i) {
    const auto lane = static_cast<std::size_t>(program.round[i].lane);
    order(last[lane], i, true);
    last[lane] = {i, false};
    for (const Dependency wait : dependencies[i]) order(wait, i, false);
  }
  return result;
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
