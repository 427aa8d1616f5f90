#pragma once

#include <algorithm>
#include <array>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/dynamic_code.hpp>
#include <reef/codec/detail/look_up.hpp>
#include <reef/codec/detail/scaled.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

REEF_INLINE std::int64_t Blockwise8::blocks(std::int64_t n) const {
  if (block < 1 || block > max_elements) {
    throw OptionError("reef::codec::Blockwise8: the block is of ", block, " numbers.\n  fix: from 1 to ",
                      max_elements, ", as 4096.");
  }
  return (n + block - 1) / block;
}

REEF_INLINE void Blockwise8::quantize(std::span<const float> values, std::span<float> largest,
                                      std::span<std::uint8_t> indices, const Threads& threads) const {
  const auto* const steps = &detail::dynamic_code().steps();
  const auto n = static_cast<std::int64_t>(values.size());
  detail::each_part(threads, n, block, [&](std::int64_t begin, std::int64_t end) {
    device::run_vectors<float>(detail::QuantizeBlocks{}, steps, values.data() + begin, end - begin,
                               block, largest.data() + begin / block, indices.data() + begin);
  });
}

REEF_INLINE void Blockwise8::dequantize(std::span<const float> largest, std::span<const std::uint8_t> indices,
                                        std::span<float> values, const Threads& threads) const {
  const std::array<float, 256>& code = detail::dynamic_code().values();
  detail::each_part(threads, static_cast<std::int64_t>(values.size()), block,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t at = begin; at < end; at += block) {
                        detail::look_up_times(code, largest[static_cast<std::size_t>(at / block)], indices.data() + at,
                                              values.data() + at, (std::min)(block, end - at));
                      }
                    });
}

REEF_INLINE Bytes Blockwise8::encoded_bytes(std::int64_t n) const { return detail::scaled_bytes(*this, n); }
REEF_INLINE Bytes Blockwise8::encode(std::span<const float> values, std::span<std::byte> message,
                                     const Threads& threads) const {
  return detail::encode_scaled(*this, values, message, threads);
}
REEF_INLINE void Blockwise8::decode(std::span<const std::byte> message, std::span<float> values,
                                    const Threads& threads) const {
  detail::decode_scaled(*this, message, values, threads);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
