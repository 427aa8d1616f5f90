#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/scaled.hpp>
#include <reef/codec/fp8.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

inline constexpr float largest_e4m3 = 448;

}  // namespace detail

REEF_INLINE std::uint8_t e4m3_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 24 & 0x80U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7f;
  std::uint32_t code = 0;
  if (magnitude < 0x3c800000U) {  // below 2^-6: steps of 2^-9, up to 8 of them, the first that is none
    code = static_cast<std::uint32_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 512));
  } else if (magnitude >= 0x43e00000U) {
    code = 0x7e;
  } else {  // 20 bits of the fraction go, and the exponent of 2^-6, 121, becomes 1
    code = ((magnitude + 0x7ffffU + (magnitude >> 20 & 1U)) >> 20) - (120U << 3);
  }
  return static_cast<std::uint8_t>(sign | code);
}

REEF_INLINE float number_of_e4m3(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7fU;
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80U) << 24;
  if (magnitude == 0x7fU) return std::numeric_limits<float>::quiet_NaN();
  const float number =
      magnitude < 8 ? static_cast<float>(magnitude) / 512 : std::bit_cast<float>((magnitude + (120U << 3)) << 20);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(number));
}

REEF_INLINE std::int64_t Fp8::blocks(std::int64_t n) const {
  if (block < 1 || block > max_elements) {
    throw OptionError("reef::codec::Fp8: a row is of ", block, " numbers.\n  fix: from 1 to ", max_elements,
                      ", as 512.");
  }
  return (n + block - 1) / block;
}

REEF_INLINE void Fp8::quantize(std::span<const float> values, std::span<float> largest,
                               std::span<std::uint8_t> codes) const {
  detail::each_block(static_cast<std::int64_t>(values.size()), block,
                     [&](std::size_t b, std::size_t begin, std::size_t end) {
                       largest[b] = detail::largest_magnitude(values.subspan(begin, end - begin));
                       // In double, as the inverse of a denormal number is no float.
                       const double scale = largest[b] > 0 ? detail::largest_e4m3 / static_cast<double>(largest[b]) : 0;
                       for (std::size_t i = begin; i < end; ++i) {
                         codes[i] = e4m3_of(static_cast<float>(static_cast<double>(values[i]) * scale));
                       }
                     });
}

REEF_INLINE void Fp8::dequantize(std::span<const float> largest, std::span<const std::uint8_t> codes,
                                 std::span<float> values) const {
  std::array<float, 256> parts{};  // of the largest
  for (unsigned code = 0; code < 256; ++code) {
    parts[code] = number_of_e4m3(static_cast<std::uint8_t>(code)) / detail::largest_e4m3;
  }
  detail::each_block(static_cast<std::int64_t>(values.size()), block,
                     [&](std::size_t b, std::size_t begin, std::size_t end) {
                       for (std::size_t i = begin; i < end; ++i) values[i] = parts[codes[i]] * largest[b];
                     });
}

REEF_INLINE Bytes Fp8::encoded_bytes(std::int64_t n) const { return detail::scaled_bytes(*this, n); }
REEF_INLINE Bytes Fp8::encode(std::span<const float> values, std::span<std::byte> message) const {
  return detail::encode_scaled(*this, values, message);
}
REEF_INLINE void Fp8::decode(std::span<const std::byte> message, std::span<float> values) const {
  detail::decode_scaled(*this, message, values);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
