#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include <reef/core/language.hpp>

namespace reef::inline v0 {

/// Sizes are bytes in 64 bits, everywhere.
using Bytes = std::uint64_t;

/// Times are seconds in fp64, everywhere. The name says so where the type cannot.
using Seconds = double;

inline namespace literals {

/// 64_KiB is 65 536 bytes.
constexpr Bytes operator""_KiB(unsigned long long count) { return count << 10; }
constexpr Bytes operator""_MiB(unsigned long long count) { return count << 20; }
constexpr Bytes operator""_GiB(unsigned long long count) { return count << 30; }

}  // namespace literals

/// The least multiple of `unit` that is at least `value`; `unit` is at least 1.
constexpr Bytes round_up(Bytes value, Bytes unit) { return (value + unit - 1) / unit * unit; }

/// How many parts of `unit` hold `value`; `unit` is at least 1.
constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t unit) {
  return value / unit + (value % unit != 0 ? 1 : 0);
}

/// "12.5 MiB": for people. Files carry plain bytes.
inline std::string format_bytes(Bytes bytes) {
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

/// "1.25 ms": for people. Files carry plain seconds.
inline std::string format_seconds(Seconds seconds) {
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

}  // namespace reef::inline v0
