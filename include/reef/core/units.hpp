#pragma once

#include <cstdint>
#include <string>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {

/// A size in bytes, 64 bits.
///
/// \code
/// const Bytes budget = 64_MiB;
/// const std::string text = format_bytes(budget);  // "64.00 MiB"
/// \endcode
using Bytes = std::uint64_t;

/// A time in seconds, fp64.
using Seconds = double;

inline namespace literals {

/// Returns the number of bytes of `count` KiB: 64_KiB is 65 536 bytes.
constexpr Bytes operator""_KiB(unsigned long long count) { return count << 10; }
constexpr Bytes operator""_MiB(unsigned long long count) { return count << 20; }
constexpr Bytes operator""_GiB(unsigned long long count) { return count << 30; }

}  // namespace literals

/// Returns the least multiple of `unit` that is at least `value`; `unit` is at least 1.
constexpr Bytes round_up(Bytes value, Bytes unit) { return (value + unit - 1) / unit * unit; }

/// Returns value / unit, rounded up to an integer; `unit` is at least 1.
constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t unit) {
  return value / unit + (value % unit != 0 ? 1 : 0);
}

/// Formats bytes for people, as in "12.5 MiB". Files carry plain bytes.
std::string format_bytes(Bytes bytes);

/// Formats seconds for people, as in "1.25 ms". Files carry plain seconds.
std::string format_seconds(Seconds seconds);

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/core/units.ipp>
#endif
