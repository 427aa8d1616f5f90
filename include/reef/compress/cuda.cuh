#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <reef/codec/bf16.hpp>
#include <reef/codec/blockwise8.hpp>
#include <reef/codec/message.hpp>
#include <reef/compress/cuda/bf16.cuh>
#include <reef/compress/cuda/blockwise8.cuh>
#include <reef/compress/detail/device_codecs.hpp>
#include <reef/core/bfloat16.hpp>
#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>

/// \file
/// Codecs on a GPU: they write the same messages as the host's codecs, byte by byte, from numbers in device memory.
///
/// | codecs  | Bf16, Blockwise8; for other codecs, a Trainer on device::Cuda copies the numbers to the host      |
/// | message | in page-locked memory: kernels read and write its payload there, so that only encoded bytes cross  |
/// |         | the link; the host writes and checks the head and its checksum                                    |
/// | numbers | float, or Bfloat16, which is widened to float and rounded back                                    |
/// | NaN     | decodes to NaN, with bits that the device chooses                                                 |
///
/// A function on a lane of device::Cuda calls encode(lane, format, values, n, message) and decode(lane, format,
/// message, decoded, n); tests/compress/cuda_codecs_test.cu does.

namespace reef {
inline namespace v0 {
namespace compress::cuda {

template <class C>
concept cuda_codec = std::same_as<C, codec::Bf16> || std::same_as<C, codec::Blockwise8>;

/// Encodes n numbers in device memory as format.encode; blocks until `message` is complete. Throws as that, or
/// CudaError.
template <cuda_codec C, class T>
Bytes encode(device::Cuda::Lane& lane, const C& format, const T* values, std::int64_t n, std::span<std::byte> message) {
  const Bytes bytes = format.encoded_bytes(n) - codec::message_head_bytes;
  encode_payload(lane, format, values, n, codec::begin_message(message, format.head(n), bytes).data());
  lane.settle();
  return codec::seal_message(message, format.head(n), bytes);
}

/// Checks the message, then enqueues its decoding to device memory. `message` must live until the lane has decoded it.
template <cuda_codec C, class T>
void decode(device::Cuda::Lane& lane, const C& format, std::span<const std::byte> message, T* values, std::int64_t n) {
  const Bytes bytes = format.encoded_bytes(n) - codec::message_head_bytes;
  decode_payload(lane, format, codec::open_message(message, format.head(n), bytes, bytes).data(), values, n, false);
}

}  // namespace compress::cuda
}  // namespace v0
}  // namespace reef

namespace reef {
inline namespace v0 {
namespace compress::detail {

template <>
struct DeviceCodecs<device::Cuda> {
  template <class C>
  static constexpr bool has = cuda::cuda_codec<C>;

  template <class C>
  static void encode(device::Cuda::Lane& lane, const C& format, const void* values, Element element, std::int64_t n,
                     std::byte* payload) {
    if (element == Element::bfloat16) {
      cuda::encode_payload(lane, format, static_cast<const Bfloat16*>(values), n, payload);
    } else {
      cuda::encode_payload(lane, format, static_cast<const float*>(values), n, payload);
    }
  }

  template <class C>
  static void decode(device::Cuda::Lane& lane, const C& format, const std::byte* payload, void* values, Element element,
                     std::int64_t n, bool adds) {
    if (element == Element::bfloat16) {
      cuda::decode_payload(lane, format, payload, static_cast<Bfloat16*>(values), n, adds);
    } else {
      cuda::decode_payload(lane, format, payload, static_cast<float*>(values), n, adds);
    }
  }
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
