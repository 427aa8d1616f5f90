#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/core/inline.hpp>
#include <reef/run/serial_order.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE schedule::Dependencies serial_order(const schedule::Program& program) {
  const std::size_t count = program.round.size();
  schedule::Dependencies result(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t before = (i + count - 1) % count;
    const schedule::Instruction& first = program.round[before];
    if (first.lane == program.round[i].lane && !first.is_posted()) continue;
    result[i].push_back({static_cast<std::uint32_t>(before), i == 0});
  }
  return result;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
