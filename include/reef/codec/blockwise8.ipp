#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/dynamic_code.hpp>

namespace reef::inline v0::codec {

REEF_INLINE Bytes Blockwise8::encoded_bytes(std::int64_t n) const {
  if (block < 1 || block > most_elements) {
    throw OptionError("reef::codec::Blockwise8: the block is of ", block, " numbers.\n  fix: from 1 to ",
                      most_elements, ", as 4096.");
  }
  return message_head_bytes + static_cast<Bytes>(blocks(n)) * sizeof(float) + static_cast<Bytes>(n);
}

REEF_INLINE void Blockwise8::quantize(std::span<const float> values, std::span<float> largest,
                                      std::span<std::uint8_t> indices) const {
  const detail::DynamicCode& code = detail::dynamic_code();
  detail::each_block(static_cast<std::int64_t>(values.size()), block,
                     [&](std::size_t b, std::size_t begin, std::size_t end) {
                       largest[b] = detail::largest_magnitude(values.subspan(begin, end - begin));
                       const float scale = 1 / largest[b];
                       for (std::size_t i = begin; i < end; ++i) {
                         const float v = values[i] * scale;
                         indices[i] = code.index_of(v > 1 ? 1 : v < -1 ? -1 : v);
                       }
                     });
}

REEF_INLINE void Blockwise8::dequantize(std::span<const float> largest, std::span<const std::uint8_t> indices,
                                        std::span<float> values) const {
  const detail::DynamicCode& code = detail::dynamic_code();
  detail::each_block(static_cast<std::int64_t>(values.size()), block,
                     [&](std::size_t b, std::size_t begin, std::size_t end) {
                       for (std::size_t i = begin; i < end; ++i) values[i] = code.value(indices[i]) * largest[b];
                     });
}

REEF_INLINE Bytes Blockwise8::encode(std::span<const float> values, std::span<std::byte> message) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes bytes = encoded_bytes(n);
  const MessageHead head{CodecId::blockwise8, name, static_cast<std::uint64_t>(block), n};
  std::byte* const at = begin_message(message, head, bytes - message_head_bytes).data();
  std::vector<float> largest(static_cast<std::size_t>(blocks(n)));
  quantize(values, largest, {reinterpret_cast<std::uint8_t*>(at + largest.size() * sizeof(float)), values.size()});
  if (n > 0) std::memcpy(at, largest.data(), largest.size() * sizeof(float));
  return seal_message(message, head, bytes - message_head_bytes);
}

REEF_INLINE void Blockwise8::decode(std::span<const std::byte> message, std::span<float> values) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes expected = encoded_bytes(n) - message_head_bytes;
  const auto payload = open_message(message, {CodecId::blockwise8, name, static_cast<std::uint64_t>(block), n},
                                    expected, expected);
  std::vector<float> largest(static_cast<std::size_t>(blocks(n)));
  if (n > 0) std::memcpy(largest.data(), payload.data(), largest.size() * sizeof(float));
  const std::byte* const at = payload.data() + largest.size() * sizeof(float);
  dequantize(largest, {reinterpret_cast<const std::uint8_t*>(at), values.size()}, values);
}

}  // namespace reef::inline v0::codec
