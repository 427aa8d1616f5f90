#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <reef/codec/threads.hpp>
#include <reef/core/config.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

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

/// The same by vectors.
template <class V>
REEF_ALWAYS_INLINE float largest_magnitude(const float* values, std::int64_t n) {
  constexpr auto finite = std::bit_cast<std::int32_t>((std::numeric_limits<float>::max)());
  V most(0.0F);
  std::uint32_t others = 0;
  for (std::int64_t i = 0; i < n; i += V::width) {
    const V value = V::load(values + i, n - i);
    most = larger(larger(value, -value), most);  // of +0 and -0 the second: +0
    others |= magnitudes_above(value, finite);
  }
  if (others == 0) return largest(most);
  return largest_magnitude({values, static_cast<std::size_t>(n)});
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

/// to[i] += factor * numbers[i], rounded twice.
inline void add_multiple(std::span<float> to, float factor, const float* numbers) {
  using V = device::Vector<float, device::Portable>;
  const std::int64_t n = std::ssize(to);
  for (std::int64_t i = 0; i < n; i += V::width) {
    (V::load(to.data() + i, n - i) + V(factor) * V::load(numbers + i, n - i)).store(to.data() + i, n - i);
  }
}

/// Numbers of a part of a codec's work, about.
inline constexpr std::int64_t numbers_of_part = 65536;

/// Calls f(begin, end) for parts of [0, n) that have whole units of so many numbers each, but the last.
template <class F>
void each_part(const Threads& threads, std::int64_t n, std::int64_t unit, const F& f) {
  const std::int64_t part = std::max<std::int64_t>(1, numbers_of_part / unit) * unit;
  threads((n + part - 1) / part,
          [&](std::int64_t i) { f(i * part, (std::min)(n, (i + 1) * part)); });
}

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
