#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/normal_float4_values.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

/// Of each block its largest magnitude, and the codes of its numbers over that.
struct QuantizeHalves {
  template <class V>
  void run(const float* thresholds, const float* values, std::int64_t n, std::int64_t block, float* largest,
           std::uint8_t* packed) const {
    constexpr std::int64_t together = 1024;  // numbers, for which processors do not wait for one block after another
    const std::int64_t group = std::max<std::int64_t>(1, together / block) * block;
    const V none(std::numeric_limits<float>::quiet_NaN());  // behind the last number: code 0
    for (std::int64_t first = 0; first < n; first += group) {
      const std::int64_t last = (std::min)(n, first + group);
      float* of_block = largest;
      for (std::int64_t begin = first; begin < last; begin += block) {
        *of_block++ = largest_magnitude<V>(values + begin, (std::min)(block, last - begin));
      }
      for (std::int64_t begin = first; begin < last; begin += block) {
        const std::int64_t end = (std::min)(last, begin + block);
        const V scale(1 / *largest++);
        for (std::int64_t i = begin; i < end; i += V::width) {
          (V::load(values + i, end - i, none) * scale).store_halves(packed + i / 2, end - i, thresholds);
        }
      }
    }
  }
};

/// Of each block the values of its codes, times its factor.
struct DequantizeHalves {
  template <class V>
  void run(const std::uint8_t* packed, std::int64_t n, std::int64_t block, const float* factor, float* values) const {
    for (std::int64_t begin = 0; begin < n; begin += block, ++factor) {
      const std::int64_t end = (std::min)(n, begin + block);
      for (std::int64_t i = begin; i < end; i += V::width) {
        (V::load_halves(packed + i / 2, end - i, normal_float4_values.data()) * V(*factor)).store(values + i, end - i);
      }
    }
  }
};

/// The 15 middles between neighbours: what is above one has the higher code.
inline std::array<float, 16> normal_float4_thresholds() {
  std::array<float, 16> thresholds{};
  for (unsigned code = 0; code < 15; ++code) {
    thresholds[code] = static_cast<float>(
        (static_cast<double>(normal_float4_values[code]) + static_cast<double>(normal_float4_values[code + 1])) / 2);
  }
  return thresholds;
}

}  // namespace detail

REEF_INLINE Bytes NormalFloat4::scale_bytes(std::int64_t n) const {
  const std::int64_t count = blocks(n);
  if (!nested) return static_cast<Bytes>(count) * sizeof(float);
  return sizeof(float) * static_cast<Bytes>(1 + above.blocks(count)) + static_cast<Bytes>(count);
}

REEF_INLINE Bytes NormalFloat4::encoded_bytes(std::int64_t n) const {
  if (block < 2 || block % 2 != 0 || block > max_elements) {
    throw OptionError("reef::codec::NormalFloat4: the block is of ", block,
                      " numbers.\n  why: two codes share a byte.\n  fix: an even number from 2 to ", max_elements,
                      ", as 64.");
  }
  return message_head_bytes + scale_bytes(n) + static_cast<Bytes>((n + 1) / 2);
}

REEF_INLINE auto NormalFloat4::quantize(std::span<const float> values, std::span<std::uint8_t> packed,
                                        const Threads& threads) const -> Scales {
  const std::array<float, 16> thresholds = detail::normal_float4_thresholds();
  const auto n = static_cast<std::int64_t>(values.size());
  Scales scales;
  scales.largest.resize(static_cast<std::size_t>(blocks(n)));
  detail::each_part(threads, n, block, [&](std::int64_t begin, std::int64_t end) {
    device::run_vectors<float>(detail::QuantizeHalves{}, thresholds.data(), values.data() + begin, end - begin,
                               block, scales.largest.data() + begin / block, packed.data() + begin / 2);
  });
  if (!nested || scales.largest.empty()) return scales;
  double sum = 0;
  for (const float largest : scales.largest) sum += static_cast<double>(largest);
  scales.offset = static_cast<float>(sum / static_cast<double>(scales.largest.size()));
  std::vector<float> rest(scales.largest.size());
  for (std::size_t b = 0; b < rest.size(); ++b) rest[b] = scales.largest[b] - scales.offset;
  scales.largest_above.resize(static_cast<std::size_t>(above.blocks(static_cast<std::int64_t>(rest.size()))));
  scales.indices.resize(rest.size());
  above.quantize(rest, scales.largest_above, scales.indices, threads);
  return scales;
}

REEF_INLINE std::vector<float> NormalFloat4::largest_of(const Scales& scales) const {
  if (!nested) return scales.largest;
  std::vector<float> largest(scales.indices.size());
  above.dequantize(scales.largest_above, scales.indices, largest);
  for (float& value : largest) value += scales.offset;
  return largest;
}

REEF_INLINE void NormalFloat4::dequantize(std::span<const float> largest, std::span<const std::uint8_t> packed,
                                          std::span<float> values, const Threads& threads) const {
  detail::each_part(threads, static_cast<std::int64_t>(values.size()), block,
                    [&](std::int64_t begin, std::int64_t end) {
                      device::run_vectors<float>(detail::DequantizeHalves{}, packed.data() + begin / 2, end - begin,
                                                 block, largest.data() + begin / block, values.data() + begin);
                    });
}

REEF_INLINE Bytes NormalFloat4::encode(std::span<const float> values, std::span<std::byte> message,
    const Threads& threads) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes payload = encoded_bytes(n) - message_head_bytes;
  const MessageHead head{CodecId::normal_float4, name, static_cast<std::uint64_t>(block) << 1 | (nested ? 1U : 0U), n};
  std::byte* at = begin_message(message, head, payload).data();
  const Bytes codes = static_cast<Bytes>((n + 1) / 2);
  const Scales scales = quantize(
      values, {reinterpret_cast<std::uint8_t*>(at + scale_bytes(n)), static_cast<std::size_t>(codes)}, threads);
  const auto put = [&at](const auto* from, std::size_t count) {
    if (count > 0) std::memcpy(at, from, count * sizeof *from);
    at += count * sizeof *from;
  };
  if (nested) {
    put(&scales.offset, 1);
    put(scales.largest_above.data(), scales.largest_above.size());
    put(scales.indices.data(), scales.indices.size());
  } else {
    put(scales.largest.data(), scales.largest.size());
  }
  return seal_message(message, head, payload, threads);
}

REEF_INLINE void NormalFloat4::decode(std::span<const std::byte> message, std::span<float> values,
    const Threads& threads) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes expected = encoded_bytes(n) - message_head_bytes;
  const auto payload = open_message(
      message, {CodecId::normal_float4, name, static_cast<std::uint64_t>(block) << 1 | (nested ? 1U : 0U), n}, expected,
      expected, threads);
  const std::byte* at = payload.data();
  const auto take = [&at](auto* to, std::size_t count) {
    if (count > 0) std::memcpy(to, at, count * sizeof *to);
    at += count * sizeof *to;
  };
  Scales scales;
  const auto count = static_cast<std::size_t>(blocks(n));
  if (nested) {
    scales.largest_above.resize(static_cast<std::size_t>(above.blocks(blocks(n))));
    scales.indices.resize(count);
    take(&scales.offset, 1);
    take(scales.largest_above.data(), scales.largest_above.size());
    take(scales.indices.data(), scales.indices.size());
  } else {
    scales.largest.resize(count);
    take(scales.largest.data(), count);
  }
  dequantize(largest_of(scales), {reinterpret_cast<const std::uint8_t*>(at), static_cast<std::size_t>((n + 1) / 2)},
             values, threads);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
