#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/detail/dynamic_code.hpp>
#include <reef/compress/cuda/words.cuh>
#include <reef/core/config.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>

namespace reef {
inline namespace v0 {
namespace compress::cuda {

/// A table of the 8-bit dynamic code, its values or its thresholds, as a kernel's parameter.
struct CodeTable {
  float at[256];
};

/// Returns how many of 255 ascending thresholds are below a number; 0 for NaN.
__device__ inline std::uint32_t steps_below(const float* thresholds, float value) {
  std::uint32_t below = 0;
#pragma unroll
  for (std::uint32_t half = 128; half > 0; half /= 2) {
    if (value > thresholds[below + half - 1]) below += half;
  }
  return below;
}

/// Encodes a block of numbers per block of threads: its largest magnitude, NaN if it has one, and its numbers' indices.
///
/// | payload | blocks largest magnitudes, fp32 | n indices |
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    blockwise8_encode_kernel(const T* values, std::int64_t n, std::int64_t block, CodeTable thresholds,
                             std::byte* payload) {
  constexpr std::uint32_t infinity = 0x7f800000U;
  __shared__ float steps[256];
  const auto thread = static_cast<int>(threadIdx.x);
  steps[thread] = thresholds.at[thread];
  const std::int64_t begin = blockIdx.x * block;
  const std::int64_t end = begin + block < n ? begin + block : n;
  float most = 0;
  bool ordered = true;
  for (std::int64_t i = begin + thread; i < end; i += device::cuda_block) {
    const std::uint32_t magnitude = bits_of(static_cast<float>(values[i])) & 0x7fffffffU;
    if (magnitude > infinity) {
      ordered = false;
    } else {
      most = fmaxf(most, float_of(magnitude));
    }
  }
  most = device::block_max<device::cuda_block>(most);  // and the steps are there
  if (__syncthreads_or(ordered ? 0 : 1) != 0) most = float_of(0x7fc00000U);
  if (thread == 0) {
    store_word(payload + word_bytes * static_cast<std::int64_t>(blockIdx.x), bits_of(most));
  }
  std::byte* const indices = payload + word_bytes * static_cast<std::int64_t>(gridDim.x);
  const float scale = 1 / most;
  for (std::int64_t i = begin + word_bytes * thread; i < end; i += word_bytes * device::cuda_block) {
    const int count = end - i < word_bytes ? static_cast<int>(end - i) : word_bytes;
    std::uint32_t word = 0;
    for (int k = 0; k < count; ++k) {
      const float scaled = static_cast<float>(values[i + k]) * scale;
      word |= steps_below(steps, scaled) << (8 * k);
    }
    store_word(indices + i, word, count);
  }
}

template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    blockwise8_decode_kernel(const std::byte* payload, std::int64_t n, std::int64_t block, CodeTable code, T* values,
                             bool adds) {
  __shared__ float scaled[256];
  const auto thread = static_cast<int>(threadIdx.x);
  // A product that has been in memory is rounded: no sum takes it up unrounded.
  scaled[thread] = code.at[thread] * float_of(load_word(payload + word_bytes * static_cast<std::int64_t>(blockIdx.x)));
  __syncthreads();
  const std::byte* const indices = payload + word_bytes * static_cast<std::int64_t>(gridDim.x);
  const std::int64_t begin = blockIdx.x * block;
  const std::int64_t end = begin + block < n ? begin + block : n;
  for (std::int64_t i = begin + word_bytes * thread; i < end; i += word_bytes * device::cuda_block) {
    const int count = end - i < word_bytes ? static_cast<int>(end - i) : word_bytes;
    const std::uint32_t word = load_word(indices + i, count);
    for (int k = 0; k < count; ++k) put(values[i + k], scaled[word >> (8 * k) & 0xffU], adds);
  }
}

template <class T>
void encode_payload(device::Cuda::Lane& lane, const codec::Blockwise8& format, const T* values, std::int64_t n,
                    std::byte* payload) {
  static_assert(device::cuda_block == 256, "reef::compress::cuda: a thread for each of 256 codes.");
  CodeTable thresholds{};
  std::ranges::copy(codec::detail::dynamic_code().thresholds(), thresholds.at);
  device::launch(lane, "blockwise8_encode", &blockwise8_encode_kernel<T>, format.blocks(n), device::cuda_block, 0,
                 values, n, format.block, thresholds, payload);
}
template <class T>
void decode_payload(device::Cuda::Lane& lane, const codec::Blockwise8& format, const std::byte* payload, T* values,
                    std::int64_t n, bool adds) {
  CodeTable code{};
  std::ranges::copy(codec::detail::dynamic_code().values(), code.at);
  device::launch(lane, "blockwise8_decode", &blockwise8_decode_kernel<T>, format.blocks(n), device::cuda_block, 0,
                 payload, n, format.block, code, values, adds);
}

}  // namespace compress::cuda
}  // namespace v0
}  // namespace reef
