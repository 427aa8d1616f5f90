#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include <reef/core/bfloat16.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>
#include <reef/nn/cuda/attention_backward.cuh>
#include <reef/nn/cuda/attention_bf16.cuh>
#include <reef/nn/cuda/attention_forward.cuh>
#include <reef/nn/cuda/attention_tile.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// The largest head size, C / H, that the attention kernels accept.
inline constexpr std::int64_t attention_head_limit = 128;

/// Returns the parameters of the kernels; throws ShapeError unless H divides C into heads that fit.
template <class E>
AttentionShape<E> attention_shape(std::int64_t T_, std::int64_t C, std::int64_t H, float rate,
                                  const DrawKey& key) {
  if (H < 1 || C % H != 0 || C / H > attention_head_limit) {
    throw ShapeError("reef::nn: attention over C = ", C, " channels with H = ", H,
                     " heads does not run on CUDA: C / H must be a whole number of "
                     "at most ",
                     attention_head_limit, ".\n  fix: more heads, of which C is a multiple.");
  }
  const auto head = static_cast<int>(C / H);
  return {T_,
          C,
          H,
          head,
          E(1) / std::sqrt(static_cast<E>(head)),
          rate,
          rate > 0.0F ? E(1) / (E(1) - static_cast<E>(rate)) : E(1),
          key};
}

/// Calls function(std::integral_constant<int, N>), N being the tile's head size for `head` channels.
template <class F>
void with_attention_head(int head, F&& function) {
  if (head <= 64) {
    function(std::integral_constant<int, 64>{});
  } else {
    function(std::integral_constant<int, 128>{});
  }
}

/// Returns whether `kernel` has its body for bf16 tensor cores on the lane's device: it was compiled
/// for sm_80 or later, which only such devices run. Older devices, and code for them, lack this body.
template <class... Parameters>
bool has_bf16_tensor_cores(device::Cuda::Lane& lane, void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  device::detail::check_cuda(
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)),
      "cudaFuncGetAttributes", lane.device().ordinal());
  return attributes.ptxVersion >= 80;
}

/// The attention of Kernels<device::Cuda>: for bf16 on tensor cores if the device has them; otherwise,
/// and for fp32 and fp64, on ordinary cores in sum_t<T>.
struct AttentionKernels {
  template <real T>
  static constexpr Bytes attention_forward_workspace(std::int64_t /*B*/, std::int64_t /*T_*/,
                                                     std::int64_t /*C*/, std::int64_t /*H*/,
                                                     int /*threads*/) {
    return 0;
  }

  /// Returns the bytes of delta (B, H, T), the workspace of a backward.
  template <real T>
  static constexpr Bytes attention_backward_workspace(std::int64_t B, std::int64_t T_,
                                                      std::int64_t /*C*/, std::int64_t H,
                                                      int /*threads*/) {
    return static_cast<Bytes>(B * H * T_) * sizeof(sum_t<T>);
  }

  template <real T>
  static void attention_forward(device::Cuda::Lane& lane, T* out, sum_t<T>* lse, const T* qkv,
                                std::int64_t B, std::int64_t T_, std::int64_t C, std::int64_t H,
                                void* /*workspace*/, float rate = 0.0F, DrawKey key = {}) {
    using E = sum_t<T>;
    const AttentionShape<E> shape = attention_shape<E>(T_, C, H, rate, key);
    with_attention_head(shape.head, [&](auto head) {
      if constexpr (std::is_same_v<T, Bfloat16>) {
        using Tile = Bf16Tile<head()>;
        const auto kernel = rate > 0.0F ? &attention_forward_bf16_kernel<head(), true>
                                        : &attention_forward_bf16_kernel<head(), false>;
        if (has_bf16_tensor_cores(lane, kernel)) {
          return device::launch(lane, "attention_forward", kernel,
                                B * H * ((T_ + Tile::own - 1) / Tile::own), Tile::threads,
                                Tile::shared_bytes(1, 0), out, lse, qkv, shape);
        }
      }
      using Tile = AttentionTile<E, head()>;
      device::launch(lane, "attention_forward", &attention_forward_kernel<T, head()>,
                     B * H * ((T_ + Tile::own - 1) / Tile::own), Tile::threads,
                     Tile::shared_bytes(shape.head, 1), out, lse, qkv, shape);
    });
  }

  /// Overwrites d_qkv, in two passes, over queries and over keys, so that each sum has one owner.
  template <real T>
  static void attention_backward(device::Cuda::Lane& lane, T* d_qkv, const T* d_out, const T* qkv,
                                 const T* out, const sum_t<T>* lse, std::int64_t B, std::int64_t T_,
                                 std::int64_t C, std::int64_t H, void* workspace, float rate = 0.0F,
                                 DrawKey key = {}) {
    using E = sum_t<T>;
    const AttentionShape<E> shape = attention_shape<E>(T_, C, H, rate, key);
    E* const delta = static_cast<E*>(workspace);
    const std::int64_t rows = B * H * T_;
    constexpr std::int64_t warps = device::cuda_block / device::cuda_warp;
    device::launch(lane, "attention_backward (delta)", &attention_delta_kernel<T>,
                   (rows + warps - 1) / warps, device::cuda_block, 0, delta, d_out, out, rows, T_,
                   H, static_cast<std::int64_t>(shape.head));
    with_attention_head(shape.head, [&](auto head) {
      if constexpr (std::is_same_v<T, Bfloat16>) {
        using Tile = Bf16Tile<head()>;
        const auto queries = rate > 0.0F ? &attention_backward_queries_bf16_kernel<head(), true>
                                         : &attention_backward_queries_bf16_kernel<head(), false>;
        const auto keys = rate > 0.0F ? &attention_backward_keys_bf16_kernel<head(), true>
                                      : &attention_backward_keys_bf16_kernel<head(), false>;
        if (has_bf16_tensor_cores(lane, queries)) {
          const std::int64_t blocks = B * H * ((T_ + Tile::own - 1) / Tile::own);
          device::launch(lane, "attention_backward (queries)", queries, blocks, Tile::threads,
                         Tile::shared_bytes(2, 0), d_qkv, d_out, qkv, lse, delta, shape);
          return device::launch(lane, "attention_backward (keys)", keys, blocks, Tile::threads,
                                Tile::shared_bytes(2, 2), d_qkv, d_out, qkv, lse, delta, shape);
        }
      }
      using Tile = AttentionTile<E, head()>;
      const std::int64_t blocks = B * H * ((T_ + Tile::own - 1) / Tile::own);
      const std::size_t shared = Tile::shared_bytes(shape.head, 2);
      device::launch(lane, "attention_backward (queries)",
                     &attention_backward_queries_kernel<T, head()>, blocks, Tile::threads, shared,
                     d_qkv, d_out, qkv, lse, delta, shape);
      device::launch(lane, "attention_backward (keys)", &attention_backward_keys_kernel<T, head()>,
                     blocks, Tile::threads, shared, d_qkv, d_out, qkv, lse, delta, shape);
    });
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
