#pragma once

#include <algorithm>
#include <cstring>

#include <reef/codec/dense.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

inline std::span<const std::byte> open_dense(std::span<const std::byte> message, std::size_t n) {
  const Bytes bytes = sizeof(float) * n;
  return open_message(message, {CodecId::dense, Dense::name, 0, static_cast<std::int64_t>(n)}, bytes, bytes);
}

}  // namespace detail

REEF_INLINE Bytes Dense::encoded_bytes(std::int64_t n) const {
  return message_head_bytes + sizeof(float) * static_cast<Bytes>(n);
}

REEF_INLINE Bytes Dense::encode(std::span<const float> values, std::span<std::byte> message) const {
  const MessageHead head{CodecId::dense, name, 0, static_cast<std::int64_t>(values.size())};
  const std::span<std::byte> payload = begin_message(message, head, values.size_bytes());
  if (!values.empty()) std::memcpy(payload.data(), values.data(), values.size_bytes());
  return seal_message(message, head, values.size_bytes());
}

REEF_INLINE Bytes Dense::encode_residual(std::span<float> values, std::span<std::byte> message) const {
  const Bytes bytes = encode(values, message);
  std::fill(values.begin(), values.end(), 0.0F);
  return bytes;
}

REEF_INLINE void Dense::decode(std::span<const std::byte> message, std::span<float> values) const {
  const auto payload = detail::open_dense(message, values.size());
  if (!values.empty()) std::memcpy(values.data(), payload.data(), values.size_bytes());
}

REEF_INLINE void Dense::accumulate(std::span<const std::byte> message, std::span<float> values) const {
  const std::byte* at = detail::open_dense(message, values.size()).data();
  for (float& value : values) {
    float sent = 0;
    std::memcpy(&sent, at, sizeof sent);
    at += sizeof sent;
    value += sent;
  }
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
