#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/scaled.hpp>
#include <reef/codec/sign.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

REEF_INLINE std::int64_t Sign::blocks(std::int64_t n) const {
  if (block < 1 || block > max_elements) {
    throw OptionError("reef::codec::Sign: the block is of ", block, " numbers.\n  fix: from 1 to ", max_elements,
                      ", as 4096.");
  }
  return (n + block - 1) / block;
}

REEF_INLINE void Sign::quantize(std::span<const float> values, std::span<float> magnitudes,
                                std::span<std::uint8_t> packed) const {
  std::fill(packed.begin(), packed.end(), std::uint8_t{});
  detail::each_block(static_cast<std::int64_t>(values.size()), block,
                     [&](std::size_t b, std::size_t begin, std::size_t end) {
                       const double sum = detail::sum_in_lanes(
                           values.subspan(begin, end - begin),
                           [](float value) { return static_cast<double>((std::abs)(value)); });
                       for (std::size_t i = begin; i < end; ++i) {
                         const unsigned negative = std::signbit(values[i]) ? 1U : 0U;
                         packed[i / 8] = static_cast<std::uint8_t>(packed[i / 8] | negative << (i % 8));
                       }
                       magnitudes[b] = static_cast<float>(sum / static_cast<double>(end - begin));
                     });
}

REEF_INLINE void Sign::dequantize(std::span<const float> magnitudes, std::span<const std::uint8_t> packed,
                                  std::span<float> values) const {
  detail::each_block(static_cast<std::int64_t>(values.size()), block,
                     [&](std::size_t b, std::size_t begin, std::size_t end) {
                       const auto magnitude = std::bit_cast<std::uint32_t>(magnitudes[b]);
                       for (std::size_t i = begin; i < end; ++i) {
                         const std::uint32_t negative = static_cast<std::uint32_t>(packed[i / 8]) >> (i % 8) & 1U;
                         values[i] = std::bit_cast<float>(magnitude ^ negative << 31);
                       }
                     });
}

REEF_INLINE Bytes Sign::encoded_bytes(std::int64_t n) const { return detail::scaled_bytes(*this, n); }
REEF_INLINE Bytes Sign::encode(std::span<const float> values, std::span<std::byte> message) const {
  return detail::encode_scaled(*this, values, message);
}
REEF_INLINE void Sign::decode(std::span<const std::byte> message, std::span<float> values) const {
  detail::decode_scaled(*this, message, values);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
