#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include <reef/core/inline.hpp>
#include <reef/run/stalls.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE Stalls::Stalls(const schedule::Program& program) : exposed_(program.round.size(), 0) {
  std::array<std::size_t, schedule::lane_count> last;
  last.fill(none);
  for (std::size_t i = 0; i < program.round.size(); ++i) {
    const schedule::Instruction& instruction = program.round[i];
    const bool sends = !instruction.sends.empty() || !instruction.receives.empty();
    std::size_t& before = last[static_cast<std::size_t>(instruction.lane)];
    if (sends) before = i;
    lanes_.push_back(instruction.lane);
    messages_.push_back(before);
  }
}

REEF_INLINE void Stalls::end_round() {
  constexpr Seconds end = (std::numeric_limits<Seconds>::max)();
  expose(schedule::Lane::compute, 0, end, 0);
  expose(schedule::Lane::update, computed_, end, 0);
}

REEF_INLINE void Stalls::expose(schedule::Lane of, Seconds from, Seconds to, unsigned met) {
  const unsigned bit = 1U << static_cast<unsigned>(of);
  if ((met & bit) != 0) return;
  for (const Stall& stall : stalls_[static_cast<std::size_t>(of)]) {
    const Seconds begin = (std::max)(from, stall.from);
    const Seconds end = (std::min)(to, stall.to);
    if (!(begin < end)) continue;
    if (messages_[stall.on] != none) {
      exposed_[messages_[stall.on]] += end - begin;
    } else if (!schedule::communicates(lanes_[stall.on])) {
      expose(lanes_[stall.on], begin, end, met | bit);
    }
  }
}

}  // namespace run
}  // namespace v0
}  // namespace reef
