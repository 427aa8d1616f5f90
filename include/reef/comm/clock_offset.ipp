#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <span>

#include <reef/comm/clock_offset.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE std::string name_of_clock() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string name;
  std::getline(file, name);
  return name;
}

REEF_INLINE Seconds clock_offset(Progress& progress, const std::string& clock, Seconds (*now)()) {
  constexpr int exchanges = 16;
  const std::string name = "clock offset";
  const std::string first = broadcast_text(progress, name, clock);
  const bool same = progress.rank() == 0 || (!clock.empty() && clock == first);
  const auto all_same = gather_numbers(progress, name, std::uint64_t{same});
  Seconds offset = 0;
  Seconds least = (std::numeric_limits<Seconds>::max)();
  for (int peer = 1; peer < progress.size(); ++peer) {
    if (all_same[static_cast<std::size_t>(peer)] != 0) continue;
    for (int i = 0; i < exchanges; ++i) {
      Seconds time = 0;
      const std::span message(&time, 1);
      if (progress.rank() == 0) {
        receive(progress, name, peer, message);
        time = now();
        send(progress, name, peer, message);
      } else if (progress.rank() == peer) {
        const Seconds begin = now();
        send(progress, name, 0, message);
        receive(progress, name, 0, message);
        const Seconds end = now();
        if (end - begin >= least) continue;
        least = end - begin;
        offset = time - (begin + end) / 2;
      }
    }
  }
  return offset;
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
