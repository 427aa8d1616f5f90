#pragma once

#include <cmath>
#include <cstdint>

#include <cuda/std/limits>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/nn/cuda/attention_tile.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// Computes out = softmax(scale Q K^T, keys that the query sees) V for one tile of queries, and lse.
/// The softmax is updated tile by tile of keys: m is the maximum, l the sum of exp(s - m).
template <class T, int Head>
REEF_HIDDEN __global__ void __launch_bounds__(256)
    attention_forward_kernel(T* out, sum_t<T>* lse, AttentionOperands<const T> from,
                             AttentionShape<sum_t<T>> shape) {
  if (on_tensor_cores<T>) return;
  using E = sum_t<T>;
  using Tile = AttentionTile<E, Head>;
  const int stride = Tile::row_stride(shape.head);
  E* const queries = reinterpret_cast<E*>(attention_shared);
  E* const streamed = queries + Tile::own * stride;
  E* const weights = streamed + Tile::streamed * stride;
  const int x = static_cast<int>(threadIdx.x) % Tile::side;
  const int y = static_cast<int>(threadIdx.x) / Tile::side;

  const auto rows = attention_rows<Tile::own>(shape.sequence, shape.heads, true);
  const std::int64_t q0 = rows.first;
  const std::int64_t of_keys = rows.key(shape, rows.h / shape.shared_by);
  load_rows<Tile::own, Tile::threads>(queries, from.q + rows.query(shape, rows.h), shape.pitch_q,
                                      q0, shape.sequence, shape.head, stride);

  const E slope = shape.slope(rows.h);
  E m[Tile::own_each];
  E l[Tile::own_each];
  E sum[Tile::own_each][Tile::channels_each];
#pragma unroll
  for (int i = 0; i < Tile::own_each; ++i) {
    m[i] = -::cuda::std::numeric_limits<E>::infinity();
    l[i] = 0;
#pragma unroll
    for (int j = 0; j < Tile::channels_each; ++j) sum[i][j] = 0;
  }

  const std::int64_t end = q0 + Tile::own < shape.sequence ? q0 + Tile::own : shape.sequence;
  for (std::int64_t k0 = first_keys<Tile::streamed>(shape, q0); k0 < end; k0 += Tile::streamed) {
    __syncthreads();  // the former values and weights have been read
    load_rows<Tile::streamed, Tile::threads>(streamed, from.k + of_keys, shape.pitch_kv, k0,
                                             shape.sequence, shape.head, stride);
    __syncthreads();
    E score[Tile::own_each][Tile::streamed_each];
    dot_rows(score, queries, streamed, shape.head, stride);
    const int distance =
        static_cast<int>(q0 - k0) + y - x;  // of this thread's first query to its first key
    if (shape.alibi) add_alibi(score, slope, -distance, Tile::side);
#pragma unroll
    for (int i = 0; i < Tile::own_each; ++i) {
      const std::int64_t t = q0 + y + 16 * i;
      const bool inside = t < shape.sequence;
      E largest = m[i];
#pragma unroll
      for (int j = 0; j < Tile::streamed_each; ++j) {
        const bool seen = inside && shape.sees(distance + 16 * (i - j));
        score[i][j] =
            seen ? score[i][j] * shape.scale : -::cuda::std::numeric_limits<E>::infinity();
        largest = fmax(largest, score[i][j]);
      }
      largest = row_max(largest);
      // Infinite before the first key of the row's window, and behind the sequence's end: then all weights are 0.
      const E base = largest == -::cuda::std::numeric_limits<E>::infinity() ? E(0) : largest;
      const E correction = exp(m[i] - base);
      E added = 0;
#pragma unroll
      for (int j = 0; j < Tile::streamed_each; ++j) {
        const std::int64_t s = k0 + x + 16 * j;
        const E weight = exp(score[i][j] - base);
        added += weight;
        weights[(y + 16 * i) * Tile::weight_stride + x + 16 * j] =
            weight * attention_dropout(shape, rows.b, rows.h, t, s);
      }
      m[i] = largest;
      l[i] = l[i] * correction + row_sum(added);
#pragma unroll
      for (int j = 0; j < Tile::channels_each; ++j) sum[i][j] *= correction;
    }
    __syncthreads();  // the keys have been read, the weights are written
    load_rows<Tile::streamed, Tile::threads>(streamed, from.v + of_keys, shape.pitch_kv, k0,
                                             shape.sequence, shape.head, stride);
    __syncthreads();
    add_weighted_rows(sum, weights, Tile::weight_stride, streamed, Tile::streamed, shape.head,
                      stride);
  }

  E factor[Tile::own_each];
#pragma unroll
  for (int i = 0; i < Tile::own_each; ++i) {
    const std::int64_t t = q0 + y + 16 * i;
    factor[i] = E(1) / l[i];
    if (x == 0 && t < shape.sequence) {
      lse[rows.statistics(shape, rows.h) + t] = m[i] + log(l[i]);
    }
  }
  store_rows(out + rows.output(shape, rows.h), shape.channels(), q0, shape.sequence, shape.head,
             sum, factor);
}

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
