#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/sign.hpp>
#include <reef/core/error.hpp>

namespace reef::inline v0::codec {

REEF_INLINE std::int64_t Sign::blocks(std::int64_t n) const {
  if (block < 1 || block > most_elements) {
    throw OptionError("reef::codec::Sign: the block is of ", block, " numbers.\n  fix: from 1 to ", most_elements,
                      ", as 4096.");
  }
  return (n + block - 1) / block;
}

REEF_INLINE Bytes Sign::encoded_bytes(std::int64_t n) const {
  return message_head_bytes + sizeof(float) * static_cast<Bytes>(blocks(n)) + static_cast<Bytes>((n + 7) / 8);
}

REEF_INLINE void Sign::quantize(std::span<const float> values, std::span<float> magnitudes,
                                std::span<std::uint8_t> packed) const {
  std::fill(packed.begin(), packed.end(), std::uint8_t{});
  detail::each_block(static_cast<std::int64_t>(values.size()), block,
                     [&](std::size_t b, std::size_t begin, std::size_t end) {
                       const double sum = detail::sum_of(values.subspan(begin, end - begin), [](float value) {
                         return static_cast<double>(std::abs(value));
                       });
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

REEF_INLINE Bytes Sign::encode(std::span<const float> values, std::span<std::byte> message) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes payload = encoded_bytes(n) - message_head_bytes;
  const MessageHead head{CodecId::sign, name, static_cast<std::uint64_t>(block), n};
  std::byte* const at = begin_message(message, head, payload).data();
  std::vector<float> magnitudes(static_cast<std::size_t>(blocks(n)));
  const std::size_t scale_bytes = magnitudes.size() * sizeof(float);
  quantize(values, magnitudes, {reinterpret_cast<std::uint8_t*>(at + scale_bytes), (values.size() + 7) / 8});
  if (n > 0) std::memcpy(at, magnitudes.data(), scale_bytes);
  return seal_message(message, head, payload);
}

REEF_INLINE void Sign::decode(std::span<const std::byte> message, std::span<float> values) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes expected = encoded_bytes(n) - message_head_bytes;
  const auto payload =
      open_message(message, {CodecId::sign, name, static_cast<std::uint64_t>(block), n}, expected, expected);
  std::vector<float> magnitudes(static_cast<std::size_t>(blocks(n)));
  const std::size_t scale_bytes = magnitudes.size() * sizeof(float);
  if (n > 0) std::memcpy(magnitudes.data(), payload.data(), scale_bytes);
  dequantize(magnitudes, {reinterpret_cast<const std::uint8_t*>(payload.data() + scale_bytes), (values.size() + 7) / 8},
             values);
}

}  // namespace reef::inline v0::codec
