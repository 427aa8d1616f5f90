#pragma once

#include <cstring>

#include <reef/codec/bf16.hpp>
#include <reef/core/bfloat16.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

REEF_INLINE Bytes Bf16::encoded_bytes(std::int64_t n) const {
  return message_head_bytes + sizeof(Bfloat16) * static_cast<Bytes>(n);
}

REEF_INLINE Bytes Bf16::encode(std::span<const float> values, std::span<std::byte> message) const {
  const Bytes bytes = sizeof(Bfloat16) * values.size();
  const MessageHead its_head = head(static_cast<std::int64_t>(values.size()));
  std::byte* at = begin_message(message, its_head, bytes).data();
  for (const float value : values) {
    const Bfloat16 rounded(value);
    std::memcpy(at, &rounded, sizeof rounded);
    at += sizeof rounded;
  }
  return seal_message(message, its_head, bytes);
}

REEF_INLINE void Bf16::decode(std::span<const std::byte> message, std::span<float> values) const {
  const Bytes bytes = sizeof(Bfloat16) * values.size();
  const std::byte* at = open_message(message, head(static_cast<std::int64_t>(values.size())), bytes, bytes).data();
  for (float& value : values) {
    Bfloat16 sent;
    std::memcpy(&sent, at, sizeof sent);
    at += sizeof sent;
    value = sent;
  }
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
