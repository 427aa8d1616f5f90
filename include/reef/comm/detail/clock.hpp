#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// Nanoseconds of the steady clock: the same for all processes of one machine.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline constexpr std::int64_t never_ns = (std::numeric_limits<std::int64_t>::max)();

constexpr std::int64_t to_ns(Seconds seconds) { return static_cast<std::int64_t>(seconds * 1e9); }
constexpr Seconds to_seconds(std::int64_t ns) { return static_cast<Seconds>(ns) * 1e-9; }

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
