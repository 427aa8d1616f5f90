#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include <reef/codec/uniform8.hpp>

namespace reef::inline v0::codec {

REEF_INLINE Bytes Uniform8::encoded_bytes(std::int64_t n) const {
  return message_head_bytes + sizeof(Scale) + static_cast<Bytes>(n);
}

REEF_INLINE auto Uniform8::quantize(std::span<const float> values, std::span<std::uint8_t> indices) const -> Scale {
  if (values.empty()) return {};
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  Scale scale;
  scale.mean = static_cast<float>(sum / n);
  double squares = 0;
  for (const float value : values) {
    const auto centred = static_cast<double>(value - scale.mean);
    squares += centred * centred;
  }
  scale.step = static_cast<float>(6 * std::sqrt(squares / std::max(n - 1, 1.0)) / 256);
  const float inverse = scale.step > 0 ? 1 / scale.step : 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float index = std::nearbyint((values[i] - scale.mean) * inverse) + 128;
    indices[i] = static_cast<std::uint8_t>(index > 0 ? std::min(index, 255.0F) : 0.0F);
  }
  return scale;
}

REEF_INLINE std::array<float, 256> Uniform8::bucket_means(std::span<const float> values,
                                                          std::span<const std::uint8_t> indices) {
  std::array<double, 256> sums{};
  std::array<double, 256> counts{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[indices[i]] += static_cast<double>(values[i]);
    counts[indices[i]] += 1;
  }
  std::array<float, 256> means{};
  for (std::size_t k = 0; k < means.size(); ++k) {
    means[k] = counts[k] > 0 ? static_cast<float>(sums[k] / counts[k]) : 0.0F;
  }
  return means;
}

REEF_INLINE Bytes Uniform8::encode(std::span<const float> values, std::span<std::byte> message) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes payload = encoded_bytes(n) - message_head_bytes;
  const MessageHead head{CodecId::uniform8, name, 0, n};
  std::byte* const at = begin_message(message, head, payload).data();
  const Scale scale = quantize(values, {reinterpret_cast<std::uint8_t*>(at + sizeof(Scale)), values.size()});
  std::memcpy(at, &scale, sizeof scale);
  return seal_message(message, head, payload);
}

REEF_INLINE void Uniform8::decode(std::span<const std::byte> message, std::span<float> values) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes expected = encoded_bytes(n) - message_head_bytes;
  const auto payload = open_message(message, {CodecId::uniform8, name, 0, n}, expected, expected);
  Scale scale;
  std::memcpy(&scale, payload.data(), sizeof scale);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto index = std::to_integer<int>(payload[sizeof scale + i]);
    values[i] = scale.mean + static_cast<float>(index - 128) * scale.step;
  }
}

}  // namespace reef::inline v0::codec
