#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include <cuda/std/limits>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>
#include <reef/nn/cuda/attention_tile.cuh>

namespace reef::inline v0::nn::cuda {

/// The largest head, C / H, that the attention kernels take.
inline constexpr std::int64_t attention_head_limit = 128;

// Shared by all attention kernels; each knows how it divides it.
extern __shared__ __align__(16) unsigned char attention_shared[];

/// out = softmax(scale Q K^T, keys up to the query) V for one tile of queries; lse beside it. The
/// softmax is kept up to date tile by tile of keys: m the maximum, l the sum of exp(s - m).
template <class T, int Head>
REEF_HIDDEN __global__ void __launch_bounds__(256)
    attention_forward_kernel(T* out, T* lse, const T* qkv, AttentionShape<T> shape) {
  using Tile = AttentionTile<T, Head>;
  const int stride = Tile::row_stride(shape.head);
  T* const queries = reinterpret_cast<T*>(attention_shared);
  T* const streamed = queries + Tile::own * stride;
  T* const weights = streamed + Tile::streamed * stride;
  const int x = static_cast<int>(threadIdx.x) % Tile::side;
  const int y = static_cast<int>(threadIdx.x) / Tile::side;

  const std::int64_t tiles = (shape.sequence + Tile::own - 1) / Tile::own;
  const AttentionPlace place = attention_place(shape.heads, tiles, true);
  const std::int64_t q0 = place.tile * Tile::own;
  const std::int64_t pitch = 3 * shape.channels;
  const T* const q = qkv + place.b * shape.sequence * pitch + place.h * shape.head;
  const T* const k = q + shape.channels;
  const T* const v = k + shape.channels;
  load_rows<T, Tile::own, Tile::threads>(queries, q, pitch, q0, shape.sequence, shape.head, stride);

  T m[Tile::own_each];
  T l[Tile::own_each];
  T sum[Tile::own_each][Tile::channels_each];
#pragma unroll
  for (int i = 0; i < Tile::own_each; ++i) {
    m[i] = -::cuda::std::numeric_limits<T>::infinity();
    l[i] = 0;
#pragma unroll
    for (int j = 0; j < Tile::channels_each; ++j) sum[i][j] = 0;
  }

  const std::int64_t end = q0 + Tile::own < shape.sequence ? q0 + Tile::own : shape.sequence;
  for (std::int64_t k0 = 0; k0 < end; k0 += Tile::streamed) {
    __syncthreads();  // the former values and weights have been read
    load_rows<T, Tile::streamed, Tile::threads>(streamed, k, pitch, k0, shape.sequence, shape.head,
                                                stride);
    __syncthreads();
    T score[Tile::own_each][Tile::streamed_each];
    dot_rows(score, queries, streamed, shape.head, stride);
#pragma unroll
    for (int i = 0; i < Tile::own_each; ++i) {
      const std::int64_t t = q0 + y + 16 * i;
      T largest = m[i];
#pragma unroll
      for (int j = 0; j < Tile::streamed_each; ++j) {
        const std::int64_t s = k0 + x + 16 * j;
        // Rows behind the sequence's end see its keys too; nothing of them is stored.
        score[i][j] = s <= t && s < shape.sequence ? score[i][j] * shape.scale
                                                   : -::cuda::std::numeric_limits<T>::infinity();
        largest = fmax(largest, score[i][j]);
      }
      largest = row_max(largest);  // finite: key 0 is in the first tile
      const T correction = exp(m[i] - largest);
      T added = 0;
#pragma unroll
      for (int j = 0; j < Tile::streamed_each; ++j) {
        const std::int64_t s = k0 + x + 16 * j;
        const T weight = exp(score[i][j] - largest);
        added += weight;
        const bool seen = s <= t && t < shape.sequence;
        weights[(y + 16 * i) * Tile::weight_stride + x + 16 * j] =
            seen ? weight * attention_dropout(shape, place.b, place.h, t, s) : T(0);
      }
      m[i] = largest;
      l[i] = l[i] * correction + row_sum(added);
#pragma unroll
      for (int j = 0; j < Tile::channels_each; ++j) sum[i][j] *= correction;
    }
    __syncthreads();  // the keys have been read, the weights are written
    load_rows<T, Tile::streamed, Tile::threads>(streamed, v, pitch, k0, shape.sequence, shape.head,
                                                stride);
    __syncthreads();
    add_weighted_rows(sum, weights, Tile::weight_stride, streamed, Tile::streamed, shape.head,
                      stride);
  }

  T factor[Tile::own_each];
#pragma unroll
  for (int i = 0; i < Tile::own_each; ++i) {
    const std::int64_t t = q0 + y + 16 * i;
    factor[i] = T(1) / l[i];
    if (x == 0 && t < shape.sequence) {
      lse[(place.b * shape.heads + place.h) * shape.sequence + t] = m[i] + log(l[i]);
    }
  }
  store_rows(out + place.b * shape.sequence * shape.channels + place.h * shape.head, shape.channels,
             q0, shape.sequence, shape.head, sum, factor);
}

/// delta[b, h, t] = d_out . out over a head's channels; a warp a row.
template <class T>
REEF_HIDDEN __global__ void attention_delta_kernel(T* delta, const T* d_out, const T* out,
                                                   std::int64_t rows, std::int64_t sequence,
                                                   std::int64_t heads, std::int64_t head) {
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (device::cuda_block / device::cuda_warp) +
      threadIdx.x / device::cuda_warp;
  const int lane = static_cast<int>(threadIdx.x) % device::cuda_warp;
  if (row >= rows) return;  // whole warps leave
  const std::int64_t t = row % sequence;
  const std::int64_t h = row / sequence % heads;
  const std::int64_t b = row / sequence / heads;
  const std::int64_t at = ((b * sequence + t) * heads + h) * head;
  T sum = 0;
  for (std::int64_t c = lane; c < head; c += device::cuda_warp) sum += d_out[at + c] * out[at + c];
  sum = device::warp_sum(sum);
  if (lane == 0) delta[row] = sum;
}

/// dQ = scale dS K for one tile of queries, dS = P (drop(dO V^T) - delta), P = exp(scale Q K^T - lse).
template <class T, int Head>
REEF_HIDDEN __global__ void __launch_bounds__(256)
    attention_backward_queries_kernel(T* d_qkv, const T* d_out, const T* qkv, const T* lse,
                                      const T* delta, AttentionShape<T> shape) {
  using Tile = AttentionTile<T, Head>;
  const int stride = Tile::row_stride(shape.head);
  T* const queries = reinterpret_cast<T*>(attention_shared);
  T* const gradients = queries + Tile::own * stride;
  T* const streamed = gradients + Tile::own * stride;
  T* const weights = streamed + Tile::streamed * stride;
  const int x = static_cast<int>(threadIdx.x) % Tile::side;
  const int y = static_cast<int>(threadIdx.x) / Tile::side;

  const std::int64_t tiles = (shape.sequence + Tile::own - 1) / Tile::own;
  const AttentionPlace place = attention_place(shape.heads, tiles, true);
  const std::int64_t q0 = place.tile * Tile::own;
  const std::int64_t pitch = 3 * shape.channels;
  const std::int64_t corner = place.b * shape.sequence * pitch + place.h * shape.head;
  const T* const q = qkv + corner;
  const T* const k = q + shape.channels;
  const T* const v = k + shape.channels;
  const T* const d_o = d_out + place.b * shape.sequence * shape.channels + place.h * shape.head;
  load_rows<T, Tile::own, Tile::threads>(queries, q, pitch, q0, shape.sequence, shape.head, stride);
  load_rows<T, Tile::own, Tile::threads>(gradients, d_o, shape.channels, q0, shape.sequence,
                                         shape.head, stride);

  T row_lse[Tile::own_each];
  T row_delta[Tile::own_each];
  T factor[Tile::own_each];
  T sum[Tile::own_each][Tile::channels_each];
#pragma unroll
  for (int i = 0; i < Tile::own_each; ++i) {
    const std::int64_t t = q0 + y + 16 * i;
    const std::int64_t at = (place.b * shape.heads + place.h) * shape.sequence + t;
    row_lse[i] = t < shape.sequence ? lse[at] : T(0);
    row_delta[i] = t < shape.sequence ? delta[at] : T(0);
    factor[i] = shape.scale;
#pragma unroll
    for (int j = 0; j < Tile::channels_each; ++j) sum[i][j] = 0;
  }

  const std::int64_t end = q0 + Tile::own < shape.sequence ? q0 + Tile::own : shape.sequence;
  for (std::int64_t k0 = 0; k0 < end; k0 += Tile::streamed) {
    __syncthreads();  // the former keys and weights have been read
    load_rows<T, Tile::streamed, Tile::threads>(streamed, k, pitch, k0, shape.sequence, shape.head,
                                                stride);
    __syncthreads();
    T score[Tile::own_each][Tile::streamed_each];
    dot_rows(score, queries, streamed, shape.head, stride);
    __syncthreads();  // the keys have been read
    load_rows<T, Tile::streamed, Tile::threads>(streamed, v, pitch, k0, shape.sequence, shape.head,
                                                stride);
    __syncthreads();
    T d_weight[Tile::own_each][Tile::streamed_each];
    dot_rows(d_weight, gradients, streamed, shape.head, stride);
#pragma unroll
    for (int i = 0; i < Tile::own_each; ++i) {
      const std::int64_t t = q0 + y + 16 * i;
#pragma unroll
      for (int j = 0; j < Tile::streamed_each; ++j) {
        const std::int64_t s = k0 + x + 16 * j;
        T d_score = 0;
        if (s <= t && t < shape.sequence) {
          const T drop = attention_dropout(shape, place.b, place.h, t, s);
          d_score =
              exp(score[i][j] * shape.scale - row_lse[i]) * (drop * d_weight[i][j] - row_delta[i]);
        }
        weights[(y + 16 * i) * Tile::weight_stride + x + 16 * j] = d_score;
      }
    }
    __syncthreads();  // the values have been read, the weights are written
    load_rows<T, Tile::streamed, Tile::threads>(streamed, k, pitch, k0, shape.sequence, shape.head,
                                                stride);
    __syncthreads();
    add_weighted_rows(sum, weights, Tile::weight_stride, streamed, Tile::streamed, shape.head,
                      stride);
  }
  store_rows(d_qkv + corner, pitch, q0, shape.sequence, shape.head, sum, factor);
}

/// dV = drop(P)^T dO and dK = scale dS^T Q for one tile of keys, over the queries from there on.
template <class T, int Head>
REEF_HIDDEN __global__ void __launch_bounds__(256)
    attention_backward_keys_kernel(T* d_qkv, const T* d_out, const T* qkv, const T* lse,
                                   const T* delta, AttentionShape<T> shape) {
  using Tile = AttentionTile<T, Head>;
  const int stride = Tile::row_stride(shape.head);
  T* const keys = reinterpret_cast<T*>(attention_shared);
  T* const values = keys + Tile::own * stride;
  T* const streamed = values + Tile::own * stride;
  T* const weights = streamed + Tile::streamed * stride;
  const int x = static_cast<int>(threadIdx.x) % Tile::side;
  const int y = static_cast<int>(threadIdx.x) / Tile::side;

  const std::int64_t tiles = (shape.sequence + Tile::own - 1) / Tile::own;
  const AttentionPlace place = attention_place(shape.heads, tiles, false);
  const std::int64_t k0 = place.tile * Tile::own;
  const std::int64_t pitch = 3 * shape.channels;
  const std::int64_t corner = place.b * shape.sequence * pitch + place.h * shape.head;
  const T* const q = qkv + corner;
  const T* const k = q + shape.channels;
  const T* const v = k + shape.channels;
  const T* const d_o = d_out + place.b * shape.sequence * shape.channels + place.h * shape.head;
  const std::int64_t statistics = (place.b * shape.heads + place.h) * shape.sequence;
  load_rows<T, Tile::own, Tile::threads>(keys, k, pitch, k0, shape.sequence, shape.head, stride);
  load_rows<T, Tile::own, Tile::threads>(values, v, pitch, k0, shape.sequence, shape.head, stride);

  T d_key[Tile::own_each][Tile::channels_each];
  T d_value[Tile::own_each][Tile::channels_each];
  T key_factor[Tile::own_each];
  T value_factor[Tile::own_each];
#pragma unroll
  for (int i = 0; i < Tile::own_each; ++i) {
    key_factor[i] = shape.scale;
    value_factor[i] = T(1);
#pragma unroll
    for (int j = 0; j < Tile::channels_each; ++j) {
      d_key[i][j] = 0;
      d_value[i][j] = 0;
    }
  }

  static_assert(Tile::own % Tile::streamed == 0);  // so the queries' tiles begin at k0
  for (std::int64_t q0 = k0; q0 < shape.sequence; q0 += Tile::streamed) {
    __syncthreads();  // the former queries and weights have been read
    load_rows<T, Tile::streamed, Tile::threads>(streamed, q, pitch, q0, shape.sequence, shape.head,
                                                stride);
    __syncthreads();
    T weight[Tile::own_each][Tile::streamed_each];  // first the scores
    dot_rows(weight, keys, streamed, shape.head, stride);
    T drop[Tile::own_each][Tile::streamed_each];
#pragma unroll
    for (int j = 0; j < Tile::streamed_each; ++j) {
      const std::int64_t t = q0 + x + 16 * j;
      const T row_lse = t < shape.sequence ? lse[statistics + t] : T(0);
#pragma unroll
      for (int i = 0; i < Tile::own_each; ++i) {
        const std::int64_t s = k0 + y + 16 * i;
        const bool seen = s <= t && t < shape.sequence;
        weight[i][j] = seen ? exp(weight[i][j] * shape.scale - row_lse) : T(0);
        drop[i][j] = seen ? attention_dropout(shape, place.b, place.h, t, s) : T(0);
        weights[(y + 16 * i) * Tile::weight_stride + x + 16 * j] = weight[i][j] * drop[i][j];
      }
    }
    __syncthreads();  // the queries have been read, the weights are written
    load_rows<T, Tile::streamed, Tile::threads>(streamed, d_o, shape.channels, q0, shape.sequence,
                                                shape.head, stride);
    __syncthreads();
    add_weighted_rows(d_value, weights, Tile::weight_stride, streamed, Tile::streamed, shape.head,
                      stride);
    T d_weight[Tile::own_each][Tile::streamed_each];
    dot_rows(d_weight, values, streamed, shape.head, stride);
    __syncthreads();  // gradients and weights have been read
#pragma unroll
    for (int j = 0; j < Tile::streamed_each; ++j) {
      const std::int64_t t = q0 + x + 16 * j;
      const T row_delta = t < shape.sequence ? delta[statistics + t] : T(0);
#pragma unroll
      for (int i = 0; i < Tile::own_each; ++i) {
        weights[(y + 16 * i) * Tile::weight_stride + x + 16 * j] =
            weight[i][j] * (drop[i][j] * d_weight[i][j] - row_delta);
      }
    }
    load_rows<T, Tile::streamed, Tile::threads>(streamed, q, pitch, q0, shape.sequence, shape.head,
                                                stride);
    __syncthreads();
    add_weighted_rows(d_key, weights, Tile::weight_stride, streamed, Tile::streamed, shape.head,
                      stride);
  }
  store_rows(d_qkv + corner + shape.channels, pitch, k0, shape.sequence, shape.head, d_key,
             key_factor);
  store_rows(d_qkv + corner + 2 * shape.channels, pitch, k0, shape.sequence, shape.head, d_value,
             value_factor);
}

/// The kernels' shape, or ShapeError where the heads do not fit.
template <real T>
AttentionShape<T> attention_shape(std::int64_t T_, std::int64_t C, std::int64_t H, float rate,
                                  const DrawKey& key) {
  if (H < 1 || C % H != 0 || C / H > attention_head_limit) {
    throw ShapeError("reef::nn: attention over C = ", C, " channels with H = ", H,
                     " heads does not run on CUDA: C / H must be a whole number of "
                     "at most ",
                     attention_head_limit, ". Take more heads.");
  }
  const auto head = static_cast<int>(C / H);
  return {T_,
          C,
          H,
          head,
          T(1) / std::sqrt(static_cast<T>(head)),
          rate,
          rate > 0.0F ? T(1) / (T(1) - static_cast<T>(rate)) : T(1),
          key};
}

/// Calls function(std::integral_constant<int, the tile's head size>).
template <class F>
void with_attention_head(int head, F&& function) {
  if (head <= 64) {
    function(std::integral_constant<int, 64>{});
  } else {
    function(std::integral_constant<int, 128>{});
  }
}

/// The attention of Kernels<device::Cuda>.
struct AttentionKernels {
  template <real T>
  static constexpr Bytes attention_forward_workspace(std::int64_t /*B*/, std::int64_t /*T_*/,
                                                     std::int64_t /*C*/, std::int64_t /*H*/,
                                                     int /*threads*/) {
    return 0;
  }

  /// delta (B, H, T).
  template <real T>
  static constexpr Bytes attention_backward_workspace(std::int64_t B, std::int64_t T_,
                                                      std::int64_t /*C*/, std::int64_t H,
                                                      int /*threads*/) {
    return static_cast<Bytes>(B * H * T_) * sizeof(T);
  }

  template <real T>
  static void attention_forward(device::Cuda::Lane& lane, T* out, T* lse, const T* qkv,
                                std::int64_t B, std::int64_t T_, std::int64_t C, std::int64_t H,
                                void* /*workspace*/, float rate = 0.0F, DrawKey key = {}) {
    const AttentionShape<T> shape = attention_shape<T>(T_, C, H, rate, key);
    with_attention_head(shape.head, [&](auto head) {
      using Tile = AttentionTile<T, head()>;
      device::launch(lane, "attention_forward", &attention_forward_kernel<T, head()>,
                     B * H * ((T_ + Tile::own - 1) / Tile::own), Tile::threads,
                     Tile::shared_bytes(shape.head, 1), out, lse, qkv, shape);
    });
  }

  /// Overwrites d_qkv. Two passes, over queries and over keys, so that every sum has one owner.
  template <real T>
  static void attention_backward(device::Cuda::Lane& lane, T* d_qkv, const T* d_out, const T* qkv,
                                 const T* out, const T* lse, std::int64_t B, std::int64_t T_,
                                 std::int64_t C, std::int64_t H, void* workspace, float rate = 0.0F,
                                 DrawKey key = {}) {
    const AttentionShape<T> shape = attention_shape<T>(T_, C, H, rate, key);
    T* const delta = static_cast<T*>(workspace);
    const std::int64_t rows = B * H * T_;
    constexpr std::int64_t warps = device::cuda_block / device::cuda_warp;
    device::launch(lane, "attention_backward (delta)", &attention_delta_kernel<T>,
                   (rows + warps - 1) / warps, device::cuda_block, 0, delta, d_out, out, rows, T_,
                   H, static_cast<std::int64_t>(shape.head));
    with_attention_head(shape.head, [&](auto head) {
      using Tile = AttentionTile<T, head()>;
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

}  // namespace reef::inline v0::nn::cuda
