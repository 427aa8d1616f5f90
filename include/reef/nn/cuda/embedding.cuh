#pragma once

#include <cstdint>

#include <cuda/std/limits>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/launch.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// A function of i in (B, T, C): out[b, t] = wte[tokens[b, t]] + wpe[t]; NaN for an invalid token.
template <class T>
struct EmbeddingForward {
  T* out;
  const std::int32_t* tokens;
  const T* wte;
  const T* wpe;
  std::int64_t sequence, channels, vocabulary;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t position = i / channels;
    const std::int64_t c = i % channels;
    const std::int64_t token = tokens[position];
    out[i] = token < 0 || token >= vocabulary
                 ? cuda_nan()
                 : T(wte[token * channels + c] + wpe[position % sequence * channels + c]);
  }

  __device__ static T cuda_nan() { return T(::cuda::std::numeric_limits<sum_t<T>>::quiet_NaN()); }
};

/// A function that sets present[v] = 1 for the tokens that occur. All writers of a byte agree.
struct MarkTokens {
  std::uint8_t* present;
  const std::int32_t* tokens;
  std::int64_t vocabulary;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t token = tokens[i];
    if (token >= 0 && token < vocabulary) present[token] = 1;
  }
};

/// A function of i in (T, C): d_wpe[t] (+)= sum over b ascending of d_out[b, t].
template <class T>
struct PositionGradient {
  sum_t<T>* d_wpe;
  const T* d_out;
  std::int64_t batch, row;  // row = T C
  bool accumulate;

  __device__ void operator()(std::int64_t i) const {
    sum_t<T> sum = 0;
    for (std::int64_t b = 0; b < batch; ++b) sum += d_out[b * row + i];
    d_wpe[i] = accumulate ? d_wpe[i] + sum : sum;
  }
};

inline constexpr int embedding_channels = 4;  // the channels of each thread
inline constexpr int embedding_tile = embedding_channels * device::cuda_block;

/// Computes d_wte[v] (+)= sum of d_out[i] over the positions i, ascending, whose token is v. A
/// block for each row of the vocabulary and tile of 1024 channels scans all tokens.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    embedding_backward_kernel(sum_t<T>* d_wte, const T* d_out, const std::int32_t* tokens,
                              const std::uint8_t* present, std::int64_t positions, std::int64_t C,
                              std::int64_t V, bool accumulate) {
  __shared__ unsigned matches[device::cuda_block / device::cuda_warp];
  const std::int64_t v = blockIdx.x % V;
  const std::int64_t first = blockIdx.x / V * embedding_tile + threadIdx.x;
  sum_t<T> sum[embedding_channels] = {};
  if (present[v] != 0) {  // the same for the whole block
    for (std::int64_t base = 0; base < positions; base += device::cuda_block) {
      const std::int64_t mine = base + threadIdx.x;
      const bool hit = mine < positions && tokens[mine] == v;
      if (__syncthreads_or(hit) == 0) continue;  // also: the former matches have been read
      const unsigned warp_matches = __ballot_sync(0xffffffffU, hit);
      if (threadIdx.x % device::cuda_warp == 0)
        matches[threadIdx.x / device::cuda_warp] = warp_matches;
      __syncthreads();
      for (int warp = 0; warp < device::cuda_block / device::cuda_warp; ++warp) {
        for (unsigned left = matches[warp]; left != 0; left &= left - 1) {
          const std::int64_t position =
              base + warp * device::cuda_warp + (__ffs(static_cast<int>(left)) - 1);
          const T* gradient = d_out + position * C;
#pragma unroll
          for (int j = 0; j < embedding_channels; ++j) {
            const std::int64_t c = first + j * device::cuda_block;
            if (c < C) sum[j] += gradient[c];
          }
        }
      }
    }
  } else if (accumulate) {
    return;
  }
#pragma unroll
  for (int j = 0; j < embedding_channels; ++j) {
    const std::int64_t c = first + j * device::cuda_block;
    if (c < C) {
      sum_t<T>& element = d_wte[v * C + c];
      element = accumulate ? element + sum[j] : sum[j];
    }
  }
}

/// d_table (V, C) (+)= the rows of d_out by their tokens; the workspace is of V bytes.
template <class T>
void add_token_gradients(device::Cuda::Lane& lane, sum_t<T>* d_table, const T* d_out,
                         const std::int32_t* tokens, std::int64_t positions, std::int64_t C,
                         std::int64_t V, bool accumulate, void* workspace) {
  auto* const present = static_cast<std::uint8_t*>(workspace);  // (V)
  lane.fill_zero(present, static_cast<Bytes>(V));
  device::for_each_index(lane, positions, MarkTokens{present, tokens, V});
  device::launch(lane, "embedding_backward", &embedding_backward_kernel<T>,
                 V * ((C + embedding_tile - 1) / embedding_tile), device::cuda_block, 0, d_table,
                 d_out, tokens, present, positions, C, V, accumulate);
}

/// The embedding of Kernels<device::Cuda>.
struct EmbeddingKernels {
  template <real T>
  static void embedding_forward(device::Cuda::Lane& lane, T* out, const std::int32_t* tokens,
                                const T* wte, const T* wpe, std::int64_t B, std::int64_t T_,
                                std::int64_t C, std::int64_t V) {
    device::for_each_index(lane, B * T_ * C, EmbeddingForward<T>{out, tokens, wte, wpe, T_, C, V});
  }

  template <real T>
  static constexpr Bytes embedding_backward_workspace(std::int64_t /*B*/, std::int64_t /*T_*/,
                                                      std::int64_t /*C*/, std::int64_t V) {
    return round_up(static_cast<Bytes>(V), 64);
  }

  /// Computes the gradients of wte, by token, and of rows [0, T_) of wpe, by position: adds them if `accumulate`, else
  /// writes them, 0 for a token that does not occur. Sums over ascending positions; skips tokens outside [0, V).
  template <real T>
  static void embedding_backward(device::Cuda::Lane& lane, sum_t<T>* d_wte, sum_t<T>* d_wpe,
                                 const T* d_out, const std::int32_t* tokens, std::int64_t B,
                                 std::int64_t T_, std::int64_t C, std::int64_t V, bool accumulate,
                                 void* workspace) {
    add_token_gradients(lane, d_wte, d_out, tokens, B * T_, C, V, accumulate, workspace);
    device::for_each_index(lane, T_ * C, PositionGradient<T>{d_wpe, d_out, B, T_ * C, accumulate});
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
