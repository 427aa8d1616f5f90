#pragma once

#include <cmath>
#include <cstdint>

#include <cuda/std/limits>

#include <reef/core/bfloat16.hpp>
#include <reef/core/config.hpp>
#include <reef/nn/cuda/attention_bf16_tile.cuh>
#include <reef/nn/cuda/attention_tile.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

inline constexpr float attention_log2_e = 1.44269504088896340736F;

/// Computes out and lse for one tile of queries in one pass over the keys: a larger score scales the sums down.
template <int Head, bool Drops>
REEF_HIDDEN __global__ void __launch_bounds__(128)
    attention_forward_bf16_kernel(Bfloat16* out, float* lse, AttentionOperands<const Bfloat16> from,
                                  AttentionShape<float> shape) {
#if REEF_BF16_TENSOR_CORES
  using Tile = Bf16Tile<Head>;
  const bf16::Place at = bf16::here();
  const int depth = (shape.head + Tile::side - 1) / Tile::side * Tile::side;
  Bfloat16* const queries = reinterpret_cast<Bfloat16*>(attention_shared);
  Bfloat16* const stages = queries + Tile::own * Tile::stride;
  constexpr int tile = Tile::streamed * Tile::stride;

  const auto rows = attention_rows<Tile::own>(shape.sequence, shape.heads, true);
  const std::int64_t of_queries = rows.query(shape, rows.h);
  const std::int64_t of_keys = rows.key(shape, rows.h / shape.shared_by);
  const std::int64_t q0 = rows.first;
  const std::int64_t first = q0 + at.warp * Tile::side;
  const std::int64_t begin = first_keys<Tile::streamed>(shape, q0);
  const std::int64_t end = q0 + Tile::own < shape.sequence ? q0 + Tile::own : shape.sequence;
  const auto load = [&](int stage, std::int64_t k0) {
    Bfloat16* const keys = stages + 2 * stage * tile;
    bf16::load_rows<Tile::streamed, Tile::threads>(keys, Tile::stride, from.k + of_keys,
                                                   shape.pitch_kv, k0, shape.sequence, shape.head,
                                                   depth);
    bf16::load_rows<Tile::streamed, Tile::threads>(keys + tile, Tile::stride, from.v + of_keys,
                                                   shape.pitch_kv, k0, shape.sequence, shape.head,
                                                   depth);
  };
  bf16::load_rows<Tile::own, Tile::threads>(queries, Tile::stride, from.q + of_queries,
                                            shape.pitch_q, q0, shape.sequence, shape.head, depth);
  load(0, begin);

  // Weights are powers of 2. Rows behind the sequence's end see its keys too; nothing of them is stored.
  constexpr float nothing = -::cuda::std::numeric_limits<float>::infinity();
  const float scale = shape.scale * attention_log2_e;
  const float slope = shape.slope(rows.h);
  mma::Left own[Tile::depths];
  mma::Sum sum[Tile::channels] = {};
  float m[2] = {nothing, nothing};
  float l[2] = {};
  int stage = 0;
  for (std::int64_t k0 = begin; k0 < end; k0 += Tile::streamed, stage = 1 - stage) {
    mma::wait_for_copies();
    __syncthreads();  // these are there, and the former have been read
    if (k0 + Tile::streamed < end) load(1 - stage, k0 + Tile::streamed);
    if (k0 == begin)
      bf16::load_own<Tile>(own, queries + at.warp * Tile::side * Tile::stride, depth);
    if (k0 >= first + Tile::side || k0 + Tile::streamed <= first - shape.window + 1)
      continue;  // all behind, or before, what this warp's rows see
    const Bfloat16* const keys = stages + 2 * stage * tile;
    mma::Sum score[Tile::columns];
    bf16::dot_rows<Tile>(score, own, keys, depth);
    if (shape.alibi) bf16::add_alibi<Tile>(score, slope, static_cast<int>(k0 - first) + at.column - at.row, 1);
    const bool seen = k0 + Tile::streamed <= first + 1 &&
                      k0 > first + Tile::side - 1 - shape.window;  // all of them by all rows
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t t = first + at.row + 8 * half;
      if (!seen) {
        const int distance = static_cast<int>(t - k0) - at.column;  // to a Sum's first column
#pragma unroll
        for (int s = 0; s < Tile::columns; ++s) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            if (!shape.sees(distance - (s * 8 + c))) score[s].part[2 * half + c] = nothing;
          }
        }
      }
      float largest = m[half];
#pragma unroll
      for (const mma::Sum& x : score)
        largest = fmaxf(largest, fmaxf(x.part[2 * half], x.part[2 * half + 1]));
      largest = bf16::quad_max(largest);
      // Infinite before the first key of the row's window: then all weights are 0.
      const float shift = largest == nothing ? 0.0F : -largest * scale;
      const float shrink = mma::exp2(m[half] * scale + shift);
      m[half] = largest;
      float added = 0;
#pragma unroll
      for (int s = 0; s < Tile::columns; ++s) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& x = score[s].part[2 * half + c];
          x = mma::exp2(x * scale + shift);
          added += x;
          if constexpr (Drops)
            x *= attention_dropout(shape, rows.b, rows.h, t, k0 + s * 8 + at.column + c);
        }
      }
      l[half] = l[half] * shrink + added;
#pragma unroll
      for (mma::Sum& channels : sum) {
        channels.part[2 * half] *= shrink;
        channels.part[2 * half + 1] *= shrink;
      }
    }
    bf16::add_weighted_rows<Tile>(sum, score, keys + tile, depth);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    l[half] = bf16::quad_sum(l[half]);
    const std::int64_t t = first + at.row + 8 * half;
    if (at.column == 0 && t < shape.sequence) {
      lse[rows.statistics(shape, rows.h) + t] = m[half] * shape.scale + logf(l[half]);
    }
  }
  bf16::store_rows(out + rows.output(shape, rows.h), shape.channels(), first, shape.sequence,
                   shape.head, sum, 1.0F / l[0], 1.0F / l[1]);
#endif
}

/// Computes dQ = scale dS K for one tile of queries, dS = P (drop(dO V^T) - delta), P = exp(scale Q K^T - lse).
template <int Head, bool Drops>
REEF_HIDDEN __global__ void __launch_bounds__(128, Head <= 64 ? 3 : 1)
    attention_backward_queries_bf16_kernel(Bfloat16* d_q, const Bfloat16* d_out,
                                           AttentionOperands<const Bfloat16> from, const float* lse,
                                           const float* delta, AttentionShape<float> shape) {
#if REEF_BF16_TENSOR_CORES
  using Tile = Bf16Tile<Head>;
  const bf16::Place at = bf16::here();
  const int depth = (shape.head + Tile::side - 1) / Tile::side * Tile::side;
  Bfloat16* const queries = reinterpret_cast<Bfloat16*>(attention_shared);
  Bfloat16* const gradients = queries + Tile::own * Tile::stride;
  Bfloat16* const stages = gradients + Tile::own * Tile::stride;
  constexpr int tile = Tile::streamed * Tile::stride;

  const auto rows = attention_rows<Tile::own>(shape.sequence, shape.heads, true);
  const std::int64_t of_queries = rows.query(shape, rows.h);
  const std::int64_t of_keys = rows.key(shape, rows.h / shape.shared_by);
  const std::int64_t q0 = rows.first;
  const std::int64_t first = q0 + at.warp * Tile::side;
  const std::int64_t begin = first_keys<Tile::streamed>(shape, q0);
  const std::int64_t end = q0 + Tile::own < shape.sequence ? q0 + Tile::own : shape.sequence;
  const auto load = [&](int stage, std::int64_t k0) {
    Bfloat16* const keys = stages + 2 * stage * tile;
    bf16::load_rows<Tile::streamed, Tile::threads>(keys, Tile::stride, from.k + of_keys,
                                                   shape.pitch_kv, k0, shape.sequence, shape.head,
                                                   depth);
    bf16::load_rows<Tile::streamed, Tile::threads>(keys + tile, Tile::stride, from.v + of_keys,
                                                   shape.pitch_kv, k0, shape.sequence, shape.head,
                                                   depth);
  };
  bf16::load_rows<Tile::own, Tile::threads>(queries, Tile::stride, from.q + of_queries,
                                            shape.pitch_q, q0, shape.sequence, shape.head, depth);
  bf16::load_rows<Tile::own, Tile::threads>(gradients, Tile::stride,
                                            d_out + rows.output(shape, rows.h), shape.channels(),
                                            q0, shape.sequence, shape.head, depth);
  load(0, begin);

  const float scale = shape.scale * attention_log2_e;
  const float slope = shape.slope(rows.h);
  float row_lse[2];  // of base 2
  float row_delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t t = first + at.row + 8 * half;
    const bool inside = t < shape.sequence;
    row_lse[half] = inside ? lse[rows.statistics(shape, rows.h) + t] * attention_log2_e : 0.0F;
    row_delta[half] = inside ? delta[rows.statistics(shape, rows.h) + t] : 0.0F;
  }
  mma::Left query[Tile::depths];
  mma::Left gradient[Tile::depths];
  mma::Sum sum[Tile::channels] = {};
  int stage = 0;
  for (std::int64_t k0 = begin; k0 < end; k0 += Tile::streamed, stage = 1 - stage) {
    mma::wait_for_copies();
    __syncthreads();  // these are there, and the former have been read
    if (k0 + Tile::streamed < end) load(1 - stage, k0 + Tile::streamed);
    if (k0 == begin) {
      bf16::load_own<Tile>(query, queries + at.warp * Tile::side * Tile::stride, depth);
      bf16::load_own<Tile>(gradient, gradients + at.warp * Tile::side * Tile::stride, depth);
    }
    if (k0 >= first + Tile::side || k0 + Tile::streamed <= first - shape.window + 1) continue;
    const Bfloat16* const keys = stages + 2 * stage * tile;
    mma::Sum score[Tile::columns];
    mma::Sum d_weight[Tile::columns];
    bf16::dot_rows<Tile>(score, query, keys, depth);
    if (shape.alibi) bf16::add_alibi<Tile>(score, slope, static_cast<int>(k0 - first) + at.column - at.row, 1);
    bf16::dot_rows<Tile>(d_weight, gradient, keys + tile, depth);
    const bool seen =
        k0 + Tile::streamed <= first + 1 && k0 > first + Tile::side - 1 - shape.window;
    const int distance =
        static_cast<int>(first + at.row - k0) - at.column;  // of `row` to a Sum's first column
#pragma unroll
    for (int s = 0; s < Tile::columns; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& x = score[s].part[i];
        float d_x = d_weight[s].part[i];
        if constexpr (Drops) {
          d_x *= attention_dropout(shape, rows.b, rows.h, first + at.row + i / 2 * 8,
                                   k0 + s * 8 + at.column + i % 2);
        }
        x = mma::exp2(x * scale - row_lse[i / 2]) * (d_x - row_delta[i / 2]);
        if (!seen && !shape.sees(distance + i / 2 * 8 - (s * 8 + i % 2))) x = 0.0F;
      }
    }
    bf16::add_weighted_rows<Tile>(sum, score, keys, depth);
  }
  bf16::store_rows(d_q + of_queries, shape.pitch_q, first, shape.sequence, shape.head, sum,
                   shape.scale, shape.scale);
#endif
}

/// Computes dV = drop(P)^T dO and dK = scale dS^T Q for one tile of keys, over the queries that see one of them: in
/// each head that shares the keys, one head after the other.
template <int Head, bool Drops>
REEF_HIDDEN __global__ void __launch_bounds__(128, Head <= 64 ? 3 : 1)
    attention_backward_keys_bf16_kernel(Bfloat16* d_k, Bfloat16* d_v, const Bfloat16* d_out,
                                        AttentionOperands<const Bfloat16> from, const float* lse,
                                        const float* delta, AttentionShape<float> shape) {
#if REEF_BF16_TENSOR_CORES
  using Tile = Bf16Tile<Head>;
  const bf16::Place at = bf16::here();
  const int depth = (shape.head + Tile::side - 1) / Tile::side * Tile::side;
  Bfloat16* const keys = reinterpret_cast<Bfloat16*>(attention_shared);
  Bfloat16* const values = keys + Tile::own * Tile::stride;
  Bfloat16* const stages = values + Tile::own * Tile::stride;
  constexpr int tile = Tile::streamed * Tile::stride;
  float* const statistics = reinterpret_cast<float*>(stages + 4 * tile);

  const auto rows = attention_rows<Tile::own>(shape.sequence, shape.kv_heads(), false);
  const std::int64_t k0 = rows.first;
  const std::int64_t of_keys = rows.key(shape, rows.h);
  const std::int64_t first = k0 + at.warp * Tile::side;
  const auto load = [&](int stage, std::int64_t h, std::int64_t q0) {
    Bfloat16* const queries = stages + 2 * stage * tile;
    bf16::load_rows<Tile::streamed, Tile::threads>(queries, Tile::stride,
                                                   from.q + rows.query(shape, h), shape.pitch_q, q0,
                                                   shape.sequence, shape.head, depth);
    bf16::load_rows<Tile::streamed, Tile::threads>(queries + tile, Tile::stride,
                                                   d_out + rows.output(shape, h), shape.channels(),
                                                   q0, shape.sequence, shape.head, depth);
    const int i = static_cast<int>(threadIdx.x);
    if (i < 2 * Tile::streamed) {
      const std::int64_t t = q0 + i % Tile::streamed;
      const bool inside = t < shape.sequence;
      const float* const from = (i < Tile::streamed ? lse : delta) + rows.statistics(shape, h);
      mma::copy_async<4>(statistics + 2 * stage * Tile::streamed + i, inside ? from + t : from,
                         inside);
    }
  };
  bf16::load_rows<Tile::own, Tile::threads>(keys, Tile::stride, from.k + of_keys, shape.pitch_kv,
                                            k0, shape.sequence, shape.head, depth);
  bf16::load_rows<Tile::own, Tile::threads>(values, Tile::stride, from.v + of_keys, shape.pitch_kv,
                                            k0, shape.sequence, shape.head, depth);
  const std::int64_t begin_heads = rows.h * shape.shared_by;
  const std::int64_t end_heads = begin_heads + shape.shared_by;
  load(0, begin_heads, k0);

  // Queries behind the sequence's end are zeros, and so are their gradients and statistics: they add nothing.
  const float scale = shape.scale * attention_log2_e;
  mma::Sum d_key[Tile::channels] = {};
  mma::Sum d_value[Tile::channels] = {};
  const std::int64_t end = last_queries<Tile::own>(shape, k0);
  std::int64_t h = begin_heads;
  std::int64_t q0 = k0;
  float slope = 0;
  for (int stage = 0; h < end_heads; stage = 1 - stage) {
    mma::wait_for_copies();
    __syncthreads();  // these are there, and the former have been read
    const std::int64_t own_h = h;
    const std::int64_t own_q0 = q0;
    if (own_q0 == k0) slope = shape.slope(own_h);
    q0 += Tile::streamed;
    if (q0 >= end) {
      q0 = k0;
      ++h;
    }
    if (h < end_heads) load(1 - stage, h, q0);
    if (own_q0 + Tile::streamed <= first || own_q0 >= first + Tile::side - 1 + shape.window)
      continue;  // all before, or behind, what sees this warp's rows
    const Bfloat16* const queries = stages + 2 * stage * tile;
    const float* const lses = statistics + 2 * stage * Tile::streamed;
    mma::Sum score[Tile::columns];
    mma::Sum d_weight[Tile::columns];
    mma::Left own[Tile::depths];  // loaded each time: the sums need the registers
    bf16::load_own<Tile>(own, keys + at.warp * Tile::side * Tile::stride, depth);
    bf16::dot_rows<Tile>(score, own, queries, depth);
    if (shape.alibi) bf16::add_alibi<Tile>(score, slope, static_cast<int>(first - own_q0) + at.row - at.column, -1);
    bf16::load_own<Tile>(own, values + at.warp * Tile::side * Tile::stride, depth);
    bf16::dot_rows<Tile>(d_weight, own, queries + tile, depth);
    const bool seen = first + Tile::side <= own_q0 + 1 &&
                      own_q0 + Tile::streamed <= first + shape.window;  // all by all queries
    const int distance =
        static_cast<int>(own_q0 - first - at.row) + at.column;  // of a Sum's first column to `row`
#pragma unroll
    for (int s = 0; s < Tile::columns; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = s * 8 + at.column + i % 2;
        float& x = score[s].part[i];
        float& d_x = d_weight[s].part[i];
        float weight = mma::exp2(x * scale - lses[column] * attention_log2_e);
        if (!seen && !shape.sees(distance + s * 8 + i % 2 - i / 2 * 8)) weight = 0.0F;
        float drop = 1.0F;
        if constexpr (Drops) {
          drop =
              attention_dropout(shape, rows.b, own_h, own_q0 + column, first + at.row + i / 2 * 8);
        }
        x = weight * drop;
        d_x = weight * (drop * d_x - lses[Tile::streamed + column]);
      }
    }
    bf16::add_weighted_rows<Tile>(d_value, score, queries + tile, depth);
    bf16::add_weighted_rows<Tile>(d_key, d_weight, queries, depth);
  }
  bf16::store_rows(d_k + of_keys, shape.pitch_kv, first, shape.sequence, shape.head, d_key,
                   shape.scale, shape.scale);
  bf16::store_rows(d_v + of_keys, shape.pitch_kv, first, shape.sequence, shape.head, d_value, 1.0F,
                   1.0F);
#endif
}

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
