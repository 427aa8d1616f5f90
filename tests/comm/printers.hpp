#pragma once

#include <cstdint>
#include <ostream>

#include <reef/comm/meter.hpp>
#include <reef/comm/shared_counter.hpp>

// What GoogleTest prints of comm's plain data.

namespace reef::comm {

inline void PrintTo(const Cost& cost, std::ostream* out) {
  *out << cost.messages << " messages of " << cost.bytes << " bytes, and " << cost.window_bytes
       << " bytes through shared memory";
}

inline void PrintTo(const CounterState& state, std::ostream* out) {
  *out << "next " << state.next << ", unused";
  for (const std::uint64_t number : state.unused) *out << " " << number;
}

}  // namespace reef::comm
