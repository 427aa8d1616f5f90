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

/// The largest head size, D, that the attention kernels accept.
inline constexpr std::int64_t attention_head_limit = 128;

/// The extents of a call of attention: H heads of queries, of which H / K share a head of keys and values, D channels
/// in each head; a window of 0 hides nothing. Pitches are the distances of rows of queries, and of keys and values.
struct AttentionExtents {
  std::int64_t B, T_, H, K, D, window;
  std::int64_t pitch_q, pitch_kv;
  bool alibi = false;
};

/// Returns the extents of causal attention whose queries, keys and values lie side by side. Throws ShapeError unless H
/// divides C into heads that fit.
inline AttentionExtents side_by_side(std::int64_t B, std::int64_t T_, std::int64_t C,
                                     std::int64_t H) {
  if (H < 1 || C % H != 0 || C / H > attention_head_limit) {
    throw ShapeError("reef::nn: attention over C = ", C, " channels with H = ", H,
                     " heads does not run on CUDA: C / H must be a whole number of "
                     "at most ",
                     attention_head_limit, ".\n  fix: more heads, of which C is a multiple.");
  }
  return {B, T_, H, H, C / H, 0, 3 * C, 3 * C};
}

/// Returns the extents of attention whose queries, keys and values are apart. Throws ShapeError unless the heads fit.
inline AttentionExtents separate_extents(std::int64_t B, std::int64_t T_, std::int64_t H, std::int64_t K,
                              std::int64_t D, std::int64_t window, bool alibi) {
  if (D < 1 || D > attention_head_limit || K < 1 || H % K != 0) {
    throw ShapeError("reef::nn: attention of H = ", H, " heads over K = ", K, " of D = ", D,
                     " channels does not run on CUDA: D must be at most ", attention_head_limit,
                     ", and K divide H.\n  fix: smaller heads, and more of them.");
  }
  return {B, T_, H, K, D, window, H * D, K * D, alibi};
}

/// Returns the parameters of the kernels.
template <class E>
AttentionShape<E> attention_shape(const AttentionExtents& e, float rate, const DrawKey& key) {
  return {e.T_,
          e.H,
          e.H / e.K,
          e.pitch_q,
          e.pitch_kv,
          static_cast<int>(e.window == 0 || e.window > e.T_ ? e.T_ : e.window),
          static_cast<int>(e.D),
          E(1) / std::sqrt(static_cast<E>(e.D)),
          rate,
          rate > 0.0F ? E(1) / (E(1) - static_cast<E>(rate)) : E(1),
          key,
          e.alibi};
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

  template <real T>
  static constexpr Bytes attention_backward_workspace(std::int64_t B, std::int64_t T_,
                                                      std::int64_t /*C*/, std::int64_t H,
                                                      int /*threads*/) {
    return delta_bytes<T>(B, T_, H);
  }

  template <real T>
  static void attention_forward(device::Cuda::Lane& lane, T* out, sum_t<T>* lse, const T* qkv,
                                std::int64_t B, std::int64_t T_, std::int64_t C, std::int64_t H,
                                void* /*workspace*/, float rate = 0.0F, DrawKey key = {}) {
    const AttentionExtents e = side_by_side(B, T_, C, H);
    forward<T>(lane, out, lse, {qkv, qkv + C, qkv + 2 * C}, e, rate, key);
  }

  /// Overwrites d_qkv.
  template <real T>
  static void attention_backward(device::Cuda::Lane& lane, T* d_qkv, const T* d_out, const T* qkv,
                                 const T* out, const sum_t<T>* lse, std::int64_t B, std::int64_t T_,
                                 std::int64_t C, std::int64_t H, void* workspace, float rate = 0.0F,
                                 DrawKey key = {}) {
    const AttentionExtents e = side_by_side(B, T_, C, H);
    backward<T>(lane, {d_qkv, d_qkv + C, d_qkv + 2 * C}, d_out, {qkv, qkv + C, qkv + 2 * C}, out,
                lse, e, workspace, rate, key);
  }

  template <real T>
  static constexpr Bytes grouped_attention_forward_workspace(std::int64_t /*B*/,
                                                             std::int64_t /*T_*/,
                                                             std::int64_t /*H*/, std::int64_t /*D*/,
                                                             std::int64_t /*window*/,
                                                             int /*threads*/) {
    return 0;
  }

  template <real T>
  static constexpr Bytes grouped_attention_backward_workspace(std::int64_t B, std::int64_t T_,
                                                              std::int64_t H, std::int64_t /*D*/,
                                                              std::int64_t /*window*/,
                                                              int /*threads*/) {
    return delta_bytes<T>(B, T_, H);
  }

  template <real T>
  static void grouped_attention_forward(device::Cuda::Lane& lane, T* out, sum_t<T>* lse, const T* q,
                                        const T* k, const T* v, std::int64_t B, std::int64_t T_,
                                        std::int64_t H, std::int64_t K, std::int64_t D,
                                        std::int64_t window, bool alibi, void* /*workspace*/,
                                        float rate, DrawKey key) {
    forward<T>(lane, out, lse, {q, k, v}, separate_extents(B, T_, H, K, D, window, alibi), rate, key);
  }

  /// Overwrites d_q, d_k and d_v.
  template <real T>
  static void grouped_attention_backward(device::Cuda::Lane& lane, T* d_q, T* d_k, T* d_v,
                                         const T* d_out, const T* q, const T* k, const T* v,
                                         const T* out, const sum_t<T>* lse, std::int64_t B,
                                         std::int64_t T_, std::int64_t H, std::int64_t K,
                                         std::int64_t D, std::int64_t window, bool alibi,
                                         void* workspace, float rate, DrawKey key) {
    backward<T>(lane, {d_q, d_k, d_v}, d_out, {q, k, v}, out, lse,
                separate_extents(B, T_, H, K, D, window, alibi), workspace, rate, key);
  }

private:
  /// Returns the bytes of delta (B, H, T).
  template <real T>
  static constexpr Bytes delta_bytes(std::int64_t B, std::int64_t T_, std::int64_t H) {
    return static_cast<Bytes>(B * H * T_) * sizeof(sum_t<T>);
  }

  template <class Tile>
  static std::int64_t tiles(const AttentionExtents& e) {
    return (e.T_ + Tile::own - 1) / Tile::own;
  }

  template <real T>
  static void forward(device::Cuda::Lane& lane, T* out, sum_t<T>* lse,
                      AttentionOperands<const T> from, const AttentionExtents& e, float rate,
                      const DrawKey& key) {
    using E = sum_t<T>;
    const AttentionShape<E> shape = attention_shape<E>(e, rate, key);
    with_attention_head(shape.head, [&](auto head) {
      if constexpr (std::is_same_v<T, Bfloat16>) {
        using Tile = Bf16Tile<head()>;
        const auto kernel = rate > 0.0F ? &attention_forward_bf16_kernel<head(), true>
                                        : &attention_forward_bf16_kernel<head(), false>;
        if (has_bf16_tensor_cores(lane, kernel)) {
          return device::launch(lane, "attention_forward", kernel, e.B * e.H * tiles<Tile>(e),
                                Tile::threads, Tile::shared_bytes(1, 0), out, lse, from, shape);
        }
      }
      using Tile = AttentionTile<E, head()>;
      device::launch(lane, "attention_forward", &attention_forward_kernel<T, head()>,
                     e.B * e.H * tiles<Tile>(e), Tile::threads, Tile::shared_bytes(shape.head, 1),
                     out, lse, from, shape);
    });
  }

  /// Two passes, over queries and over keys, so that every sum has one owner.
  template <real T>
  static void backward(device::Cuda::Lane& lane, AttentionOperands<T> to, const T* d_out,
                       AttentionOperands<const T> from, const T* out, const sum_t<T>* lse,
                       const AttentionExtents& e, void* workspace, float rate, const DrawKey& key) {
    using E = sum_t<T>;
    const AttentionShape<E> shape = attention_shape<E>(e, rate, key);
    E* const delta = static_cast<E*>(workspace);
    const std::int64_t rows = e.B * e.H * e.T_;
    constexpr std::int64_t warps = device::cuda_block / device::cuda_warp;
    device::launch(lane, "attention_backward (delta)", &attention_delta_kernel<T>,
                   (rows + warps - 1) / warps, device::cuda_block, 0, delta, d_out, out, rows, e.T_,
                   e.H, e.D);
    with_attention_head(shape.head, [&](auto head) {
      if constexpr (std::is_same_v<T, Bfloat16>) {
        using Tile = Bf16Tile<head()>;
        const auto queries = rate > 0.0F ? &attention_backward_queries_bf16_kernel<head(), true>
                                         : &attention_backward_queries_bf16_kernel<head(), false>;
        const auto keys = rate > 0.0F ? &attention_backward_keys_bf16_kernel<head(), true>
                                      : &attention_backward_keys_bf16_kernel<head(), false>;
        if (has_bf16_tensor_cores(lane, queries)) {
          device::launch(lane, "attention_backward (queries)", queries, e.B * e.H * tiles<Tile>(e),
                         Tile::threads, Tile::shared_bytes(2, 0), to.q, d_out, from, lse, delta,
                         shape);
          return device::launch(lane, "attention_backward (keys)", keys, e.B * e.K * tiles<Tile>(e),
                                Tile::threads, Tile::shared_bytes(2, 2), to.k, to.v, d_out, from,
                                lse, delta, shape);
        }
      }
      using Tile = AttentionTile<E, head()>;
      const std::size_t shared = Tile::shared_bytes(shape.head, 2);
      device::launch(lane, "attention_backward (queries)",
                     &attention_backward_queries_kernel<T, head()>, e.B * e.H * tiles<Tile>(e),
                     Tile::threads, shared, to.q, d_out, from, lse, delta, shape);
      device::launch(lane, "attention_backward (keys)", &attention_backward_keys_kernel<T, head()>,
                     e.B * e.K * tiles<Tile>(e), Tile::threads, shared, to.k, to.v, d_out, from,
                     lse, delta, shape);
    });
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
