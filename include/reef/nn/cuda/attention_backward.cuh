#pragma once

#include <cmath>
#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/launch.cuh>
#include <reef/nn/cuda/attention_tile.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// Computes delta[b, h, t] = d_out . out over a head's channels; one warp for each row.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    attention_delta_kernel(sum_t<T>* delta, const T* d_out, const T* out, std::int64_t rows,
                           std::int64_t sequence, std::int64_t heads, std::int64_t head) {
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (device::cuda_block / device::cuda_warp) +
      threadIdx.x / device::cuda_warp;
  const int lane = static_cast<int>(threadIdx.x) % device::cuda_warp;
  if (row >= rows) return;  // whole warps leave
  const std::int64_t t = row % sequence;
  const std::int64_t h = row / sequence % heads;
  const std::int64_t b = row / sequence / heads;
  const std::int64_t at = ((b * sequence + t) * heads + h) * head;
  sum_t<T> sum = 0;
  for (std::int64_t c = lane; c < head; c += device::cuda_warp) sum += d_out[at + c] * out[at + c];
  sum = device::warp_sum(sum);
  if (lane == 0) delta[row] = sum;
}

/// Computes dQ = scale dS K of a query tile; dS = P(drop(dO V^T) - delta), P = exp(scale Q K^T - lse).
template <class T, int Head>
REEF_HIDDEN __global__ void __launch_bounds__(256)
    attention_backward_queries_kernel(T* d_q, const T* d_out, AttentionOperands<const T> from,
                                      const sum_t<T>* lse, const sum_t<T>* delta,
                                      AttentionShape<sum_t<T>> shape) {
  if (on_tensor_cores<T>) return;
  using E = sum_t<T>;
  using Tile = AttentionTile<E, Head>;
  const int stride = Tile::row_stride(shape.head);
  E* const queries = reinterpret_cast<E*>(attention_shared);
  E* const gradients = queries + Tile::own * stride;
  E* const streamed = gradients + Tile::own * stride;
  E* const weights = streamed + Tile::streamed * stride;
  const int x = static_cast<int>(threadIdx.x) % Tile::side;
  const int y = static_cast<int>(threadIdx.x) / Tile::side;

  const auto rows = attention_rows<Tile::own>(shape.sequence, shape.heads, true);
  const std::int64_t q0 = rows.first;
  const std::int64_t of_queries = rows.query(shape, rows.h);
  const std::int64_t of_keys = rows.key(shape, rows.h / shape.shared_by);
  load_rows<Tile::own, Tile::threads>(queries, from.q + of_queries, shape.pitch_q, q0,
                                      shape.sequence, shape.head, stride);
  load_rows<Tile::own, Tile::threads>(gradients, d_out + rows.output(shape, rows.h),
                                      shape.channels(), q0, shape.sequence, shape.head, stride);

  const E slope = shape.slope(rows.h);
  E row_lse[Tile::own_each];
  E row_delta[Tile::own_each];
  E factor[Tile::own_each];
  E sum[Tile::own_each][Tile::channels_each];
#pragma unroll
  for (int i = 0; i < Tile::own_each; ++i) {
    const std::int64_t t = q0 + y + 16 * i;
    const std::int64_t at = rows.statistics(shape, rows.h) + t;
    row_lse[i] = t < shape.sequence ? lse[at] : E(0);
    row_delta[i] = t < shape.sequence ? delta[at] : E(0);
    factor[i] = shape.scale;
#pragma unroll
    for (int j = 0; j < Tile::channels_each; ++j) sum[i][j] = 0;
  }

  const std::int64_t end = q0 + Tile::own < shape.sequence ? q0 + Tile::own : shape.sequence;
  for (std::int64_t k0 = first_keys<Tile::streamed>(shape, q0); k0 < end; k0 += Tile::streamed) {
    __syncthreads();  // the former keys and weights have been read
    load_rows<Tile::streamed, Tile::threads>(streamed, from.k + of_keys, shape.pitch_kv, k0,
                                             shape.sequence, shape.head, stride);
    __syncthreads();
    E score[Tile::own_each][Tile::streamed_each];
    dot_rows(score, queries, streamed, shape.head, stride);
    __syncthreads();  // the keys have been read
    load_rows<Tile::streamed, Tile::threads>(streamed, from.v + of_keys, shape.pitch_kv, k0,
                                             shape.sequence, shape.head, stride);
    __syncthreads();
    E d_weight[Tile::own_each][Tile::streamed_each];
    dot_rows(d_weight, gradients, streamed, shape.head, stride);
    const int distance =
        static_cast<int>(q0 - k0) + y - x;  // of this thread's first query to its first key
    if (shape.alibi) add_alibi(score, slope, -distance, Tile::side);
#pragma unroll
    for (int i = 0; i < Tile::own_each; ++i) {
      const std::int64_t t = q0 + y + 16 * i;
#pragma unroll
      for (int j = 0; j < Tile::streamed_each; ++j) {
        const std::int64_t s = k0 + x + 16 * j;
        E d_score = 0;
        if (t < shape.sequence && shape.sees(distance + 16 * (i - j))) {
          const E drop = attention_dropout(shape, rows.b, rows.h, t, s);
          d_score =
              exp(score[i][j] * shape.scale - row_lse[i]) * (drop * d_weight[i][j] - row_delta[i]);
        }
        weights[(y + 16 * i) * Tile::weight_stride + x + 16 * j] = d_score;
      }
    }
    __syncthreads();  // the values have been read, the weights are written
    load_rows<Tile::streamed, Tile::threads>(streamed, from.k + of_keys, shape.pitch_kv, k0,
                                             shape.sequence, shape.head, stride);
    __syncthreads();
    add_weighted_rows(sum, weights, Tile::weight_stride, streamed, Tile::streamed, shape.head,
                      stride);
  }
  store_rows(d_q + of_queries, shape.pitch_q, q0, shape.sequence, shape.head, sum, factor);
}

/// Computes dV = drop(P)^T dO and dK = scale dS^T Q for one tile of keys, over the queries that see one of them: in
/// each head that shares the keys, one head after the other.
template <class T, int Head>
REEF_HIDDEN __global__ void __launch_bounds__(256)
    attention_backward_keys_kernel(T* d_k, T* d_v, const T* d_out, AttentionOperands<const T> from,
                                   const sum_t<T>* lse, const sum_t<T>* delta,
                                   AttentionShape<sum_t<T>> shape) {
  if (on_tensor_cores<T>) return;
  using E = sum_t<T>;
  using Tile = AttentionTile<E, Head>;
  const int stride = Tile::row_stride(shape.head);
  E* const keys = reinterpret_cast<E*>(attention_shared);
  E* const values = keys + Tile::own * stride;
  E* const streamed = values + Tile::own * stride;
  E* const weights = streamed + Tile::streamed * stride;
  const int x = static_cast<int>(threadIdx.x) % Tile::side;
  const int y = static_cast<int>(threadIdx.x) / Tile::side;

  const auto rows = attention_rows<Tile::own>(shape.sequence, shape.kv_heads(), false);
  const std::int64_t k0 = rows.first;
  const std::int64_t of_keys = rows.key(shape, rows.h);
  load_rows<Tile::own, Tile::threads>(keys, from.k + of_keys, shape.pitch_kv, k0, shape.sequence,
                                      shape.head, stride);
  load_rows<Tile::own, Tile::threads>(values, from.v + of_keys, shape.pitch_kv, k0, shape.sequence,
                                      shape.head, stride);

  E d_key[Tile::own_each][Tile::channels_each];
  E d_value[Tile::own_each][Tile::channels_each];
  E key_factor[Tile::own_each];
  E value_factor[Tile::own_each];
#pragma unroll
  for (int i = 0; i < Tile::own_each; ++i) {
    key_factor[i] = shape.scale;
    value_factor[i] = E(1);
#pragma unroll
    for (int j = 0; j < Tile::channels_each; ++j) {
      d_key[i][j] = 0;
      d_value[i][j] = 0;
    }
  }

  static_assert(Tile::own % Tile::streamed == 0);  // so the queries' tiles begin at k0
  const std::int64_t end = last_queries<Tile::own>(shape, k0);
  for (std::int64_t shared = 0; shared < shape.shared_by; ++shared) {
    const std::int64_t h = rows.h * shape.shared_by + shared;
    const T* const q = from.q + rows.query(shape, h);
    const T* const d_o = d_out + rows.output(shape, h);
    const std::int64_t statistics = rows.statistics(shape, h);
    const E slope = shape.slope(h);
    for (std::int64_t q0 = k0; q0 < end; q0 += Tile::streamed) {
      __syncthreads();  // the former queries and weights have been read
      load_rows<Tile::streamed, Tile::threads>(streamed, q, shape.pitch_q, q0, shape.sequence,
                                               shape.head, stride);
      __syncthreads();
      E weight[Tile::own_each][Tile::streamed_each];  // first the scores
      dot_rows(weight, keys, streamed, shape.head, stride);
      E drop[Tile::own_each][Tile::streamed_each];
      const int distance =
          static_cast<int>(q0 - k0) + x - y;  // of this thread's first query to its first key
      if (shape.alibi) add_alibi(weight, slope, -distance, -Tile::side);
#pragma unroll
      for (int j = 0; j < Tile::streamed_each; ++j) {
        const std::int64_t t = q0 + x + 16 * j;
        const E row_lse = t < shape.sequence ? lse[statistics + t] : E(0);
#pragma unroll
        for (int i = 0; i < Tile::own_each; ++i) {
          const std::int64_t s = k0 + y + 16 * i;
          const bool seen = t < shape.sequence && shape.sees(distance + 16 * (j - i));
          weight[i][j] = seen ? exp(weight[i][j] * shape.scale - row_lse) : E(0);
          drop[i][j] = seen ? attention_dropout(shape, rows.b, h, t, s) : E(0);
          weights[(y + 16 * i) * Tile::weight_stride + x + 16 * j] = weight[i][j] * drop[i][j];
        }
      }
      __syncthreads();  // the queries have been read, the weights are written
      load_rows<Tile::streamed, Tile::threads>(streamed, d_o, shape.channels(), q0, shape.sequence,
                                               shape.head, stride);
      __syncthreads();
      add_weighted_rows(d_value, weights, Tile::weight_stride, streamed, Tile::streamed, shape.head,
                        stride);
      E d_weight[Tile::own_each][Tile::streamed_each];
      dot_rows(d_weight, values, streamed, shape.head, stride);
      __syncthreads();  // gradients and weights have been read
#pragma unroll
      for (int j = 0; j < Tile::streamed_each; ++j) {
        const std::int64_t t = q0 + x + 16 * j;
        const E row_delta = t < shape.sequence ? delta[statistics + t] : E(0);
#pragma unroll
        for (int i = 0; i < Tile::own_each; ++i) {
          weights[(y + 16 * i) * Tile::weight_stride + x + 16 * j] =
              weight[i][j] * (drop[i][j] * d_weight[i][j] - row_delta);
        }
      }
      load_rows<Tile::streamed, Tile::threads>(streamed, q, shape.pitch_q, q0, shape.sequence,
                                               shape.head, stride);
      __syncthreads();
      add_weighted_rows(d_key, weights, Tile::weight_stride, streamed, Tile::streamed, shape.head,
                        stride);
    }
  }
  store_rows(d_k + of_keys, shape.pitch_kv, k0, shape.sequence, shape.head, d_key, key_factor);
  store_rows(d_v + of_keys, shape.pitch_kv, k0, shape.sequence, shape.head, d_value, value_factor);
}

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
