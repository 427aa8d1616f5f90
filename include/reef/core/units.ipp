#pragma once

#include <array>
#include <cstdio>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {

REEF_INLINE std::string format_bytes(Bytes bytes) {
  static constexpr std::array<const char*, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < names.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.2f %s", value, names[unit]);
  return text.data();
}

REEF_INLINE std::string format_seconds(Seconds seconds) {
  std::array<char, 32> text{};
  const double magnitude = seconds < 0 ? -seconds : seconds;
  if (magnitude >= 1.0) {
    std::snprintf(text.data(), text.size(), "%.3g s", seconds);
  } else if (magnitude >= 1e-3) {
    std::snprintf(text.data(), text.size(), "%.3g ms", seconds * 1e3);
  } else {
    std::snprintf(text.data(), text.size(), "%.3g us", seconds * 1e6);
  }
  return text.data();
}

}  // namespace v0
}  // namespace reef
