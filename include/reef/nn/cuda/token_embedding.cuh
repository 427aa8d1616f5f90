#pragma once

#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/launch.cuh>
#include <reef/nn/cuda/embedding.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// out[i] = weight[tokens[i]]; a token outside [0, V) gives NaN. i counts (n, C).
template <class T>
struct TokenVectors {
  T* out;
  const std::int32_t* tokens;
  const T* weight;
  std::int64_t channels, vocabulary;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t token = tokens[i / channels];
    out[i] = token < 0 || token >= vocabulary ? EmbeddingForward<T>::cuda_nan()
                                              : weight[token * channels + i % channels];
  }
};

/// The embedding without positions of Kernels<device::Cuda>.
struct TokenEmbeddingKernels {
  template <real T>
  static void token_embedding_forward(device::Cuda::Lane& lane, T* out, const std::int32_t* tokens,
                                      const T* weight, std::int64_t n, std::int64_t C,
                                      std::int64_t V) {
    device::for_each_index(lane, n * C, TokenVectors<T>{out, tokens, weight, C, V});
  }

  template <real T>
  static constexpr Bytes token_embedding_backward_workspace(std::int64_t /*n*/, std::int64_t /*C*/,
                                                            std::int64_t V) {
    return round_up(static_cast<Bytes>(V), 64);
  }

  /// The rows of d_weight that no token names are zeroed unless accumulate. Positions fold ascending, tokens outside
  /// [0, V) are passed over.
  template <real T>
  static void token_embedding_backward(device::Cuda::Lane& lane, sum_t<T>* d_weight, const T* d_out,
                                       const std::int32_t* tokens, std::int64_t n, std::int64_t C,
                                       std::int64_t V, bool accumulate, void* workspace) {
    add_token_gradients(lane, d_weight, d_out, tokens, n, C, V, accumulate, workspace);
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
