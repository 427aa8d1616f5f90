#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <reef/core/language.hpp>

namespace reef::inline v0::codec::detail {

/// The largest magnitude, and NaN if there is one among them.
inline float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  bool ordered = true;
  for (const float value : values) {
    const float magnitude = value < 0 ? -value : value;
    largest = magnitude > largest ? magnitude : largest;
    ordered = ordered && value == value;
  }
  return ordered ? largest : std::numeric_limits<float>::quiet_NaN();
}

/// Calls f(block, begin, end) for each block of so many of n numbers; the last may have fewer.
template <class F>
void each_block(std::int64_t n, std::int64_t block, const F& f) {
  for (std::int64_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    f(static_cast<std::size_t>(b), static_cast<std::size_t>(begin),
      static_cast<std::size_t>(begin + block < n ? begin + block : n));
  }
}

/// The sum of f(value), in four lanes that are added at last: the order, and so the bits, are the same everywhere.
template <class F>
double sum_in_lanes(std::span<const float> values, const F& f) {
  double lanes[4]{};
  std::size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) lanes[lane] += f(values[i + lane]);
  }
  for (; i < values.size(); ++i) lanes[i % 4] += f(values[i]);
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

}  // namespace reef::inline v0::codec::detail
