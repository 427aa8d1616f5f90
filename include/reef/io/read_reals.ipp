#pragma once

#include <bit>

#include <reef/core/inline.hpp>
#include <reef/io/read_reals.hpp>
#include <reef/io/safetensors.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

REEF_INLINE float float_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and denormals: multiples of 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

}  // namespace detail

}  // namespace io
}  // namespace v0
}  // namespace reef
