#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <reef/codec/message.hpp>
#include <reef/core/units.hpp>

/// \file
/// Messages of codecs that have fp32 numbers for each block and codes of so many bits for each number: those, then
/// these.
///
///     scales(n), code_bytes(n)            how many there are
///     quantize(values, scales, codes)     and dequantize(scales, codes, values); may take threads, and is given those
///                                         of the call

namespace reef {
inline namespace v0 {
namespace codec::detail {

template <class C>
Bytes scaled_bytes(const C& format, std::int64_t n) {
  return message_head_bytes + sizeof(float) * static_cast<Bytes>(format.scales(n)) + format.code_bytes(n);
}

template <class C>
MessageHead scaled_head(const C& format, std::int64_t n) {
  return {C::id, C::name, static_cast<std::uint64_t>(format.block), n};
}

template <class C, class... Shared>
Bytes encode_scaled(const C& format, std::span<const float> values, std::span<std::byte> message,
                    const Shared&... threads) {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes bytes = scaled_bytes(format, n) - message_head_bytes;
  const MessageHead head = scaled_head(format, n);
  std::byte* const at = begin_message(message, head, bytes).data();
  std::vector<float> scales(static_cast<std::size_t>(format.scales(n)));
  const std::size_t scale_bytes = scales.size() * sizeof(float);
  format.quantize(values, scales,
                  {reinterpret_cast<std::uint8_t*>(at + scale_bytes), static_cast<std::size_t>(format.code_bytes(n))},
                  threads...);
  if (n > 0) std::memcpy(at, scales.data(), scale_bytes);
  return seal_message(message, head, bytes, threads...);
}

template <class C, class... Shared>
void decode_scaled(const C& format, std::span<const std::byte> message, std::span<float> values,
                   const Shared&... threads) {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes expected = scaled_bytes(format, n) - message_head_bytes;
  const std::byte* const at = open_message(message, scaled_head(format, n), expected, expected, threads...).data();
  std::vector<float> scales(static_cast<std::size_t>(format.scales(n)));
  const std::size_t scale_bytes = scales.size() * sizeof(float);
  if (n > 0) std::memcpy(scales.data(), at, scale_bytes);
  format.dequantize(
      scales,
      {reinterpret_cast<const std::uint8_t*>(at + scale_bytes), static_cast<std::size_t>(format.code_bytes(n))}, values,
      threads...);
}

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
