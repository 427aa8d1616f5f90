#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/codec/bf16.hpp>
#include <reef/compress/cuda/words.cuh>
#include <reef/core/bfloat16.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>

namespace reef {
inline namespace v0 {
namespace compress::cuda {

/// A kernel's function that encodes numbers 2 i and 2 i + 1 into word i of the payload.
template <class T>
struct EncodePair {
  const T* values;
  std::int64_t n;
  std::byte* payload;

  __device__ void operator()(std::int64_t i) const {
    const auto code = [&](std::int64_t at) {
      const Bfloat16 rounded(static_cast<float>(values[at]));
      return bits_of(static_cast<float>(rounded)) >> 16;
    };
    const bool whole = 2 * i + 1 < n;
    store_word(payload + word_bytes * i, code(2 * i) | (whole ? code(2 * i + 1) << 16 : 0), whole ? word_bytes : 2);
  }
};

template <class T>
struct DecodePair {
  const std::byte* payload;
  std::int64_t n;
  T* values;
  bool adds;

  __device__ void operator()(std::int64_t i) const {
    const bool whole = 2 * i + 1 < n;
    const std::uint32_t word = load_word(payload + word_bytes * i, whole ? word_bytes : 2);
    put(values[2 * i], float_of(word << 16), adds);
    if (whole) put(values[2 * i + 1], float_of(word & 0xffff0000U), adds);
  }
};

/// Enqueues the kernel that encodes numbers into a payload, or decodes them from it; the device must reach the payload.
template <class T>
void encode_payload(device::Cuda::Lane& lane, const codec::Bf16&, const T* values, std::int64_t n, std::byte* payload) {
  device::for_each_index(lane, (n + 1) / 2, EncodePair<T>{values, n, payload});
}
template <class T>
void decode_payload(device::Cuda::Lane& lane, const codec::Bf16&, const std::byte* payload, T* values, std::int64_t n,
                    bool adds) {
  device::for_each_index(lane, (n + 1) / 2, DecodePair<T>{payload, n, values, adds});
}

}  // namespace compress::cuda
}  // namespace v0
}  // namespace reef
