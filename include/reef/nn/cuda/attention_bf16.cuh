#pragma once

#include <cmath>
#include <cstdint>

#include <mma.h>

#include <cuda/std/limits>

#include <reef/core/bfloat16.hpp>
#include <reef/core/config.hpp>
#include <reef/nn/cuda/attention_bf16_tile.cuh>
#include <reef/nn/cuda/attention_tile.cuh>

namespace reef::inline v0::nn::cuda {

/// out and lse of one tile of queries, in two passes over the keys: the first finds lse, the second
/// adds up exp(scale Q K^T - lse) V, whose sums then need no correction on the way.
template <int Head>
REEF_HIDDEN __global__ void __launch_bounds__(128)
    attention_forward_bf16_kernel(Bfloat16* out, float* lse, const Bfloat16* qkv,
                                  AttentionShape<float> shape) {
#if REEF_BF16_TENSOR_CORES
  using Tile = Bf16Tile<Head>;
  const bf16::Place at = bf16::here();
  const int depth = (shape.head + Tile::side - 1) / Tile::side * Tile::side;
  Bfloat16* const queries = reinterpret_cast<Bfloat16*>(attention_shared);
  Bfloat16* const streamed = queries + Tile::own * Tile::stride;
  Bfloat16* const values = streamed + Tile::streamed * Tile::stride;
  float* const slices = reinterpret_cast<float*>(values + Tile::streamed * Tile::stride);
  float* const slice = slices + at.warp * Tile::side * Tile::score_stride;
  Bfloat16* const weights = reinterpret_cast<Bfloat16*>(slices + Tile::own * Tile::score_stride) +
                            at.warp * Tile::side * Tile::weight_stride;
  const Bfloat16* const own = queries + at.warp * Tile::side * Tile::stride;

  const auto rows = attention_rows<Tile::own>(qkv, shape, true);
  const std::int64_t q0 = rows.first;
  const std::int64_t first = q0 + at.warp * Tile::side;
  const std::int64_t t = first + at.row;
  const std::int64_t end = q0 + Tile::own < shape.sequence ? q0 + Tile::own : shape.sequence;
  bf16::load_rows<Tile::own, Tile::threads>(queries, Tile::stride, rows.q, rows.pitch, q0,
                                            shape.sequence, shape.head, depth);

  // Rows behind the sequence's end see its keys too; nothing of them is stored.
  constexpr float nothing = -::cuda::std::numeric_limits<float>::infinity();
  float m = nothing;
  float l = 0;
  for (std::int64_t k0 = 0; k0 < end; k0 += Tile::streamed) {
    __syncthreads();  // the former keys have been read
    bf16::load_rows<Tile::streamed, Tile::threads>(streamed, Tile::stride, rows.k, rows.pitch, k0,
                                                   shape.sequence, shape.head, depth);
    __syncthreads();
    bf16::dot_rows<Tile>(slice, own, streamed, depth);
    float score[Tile::columns_each];
    float largest = m;
#pragma unroll
    for (int i = 0; i < Tile::columns_each; ++i) {
      const std::int64_t s = k0 + at.column(i);
      score[i] = s <= t && s < shape.sequence
                     ? slice[at.row * Tile::score_stride + at.column(i)] * shape.scale
                     : nothing;
      largest = fmaxf(largest, score[i]);
    }
    largest =
        fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));  // finite: key 0 comes first
    float added = 0;
#pragma unroll
    for (int i = 0; i < Tile::columns_each; ++i) added += expf(score[i] - largest);
    added += __shfl_xor_sync(0xffffffffU, added, 1);
    l = l * expf(m - largest) + added;
    m = largest;
  }
  const float total = m + logf(l);
  if (at.odd == 0 && t < shape.sequence) {
    lse[rows.statistics(shape) + t] = total;
  }

  bf16::Sum sum[Head / Tile::side];
#pragma unroll
  for (auto& block : sum) nvcuda::wmma::fill_fragment(block, 0.0F);
  for (std::int64_t k0 = 0; k0 < end; k0 += Tile::streamed) {
    __syncthreads();  // the former keys and values have been read
    bf16::load_rows<Tile::streamed, Tile::threads>(streamed, Tile::stride, rows.k, rows.pitch, k0,
                                                   shape.sequence, shape.head, depth);
    bf16::load_rows<Tile::streamed, Tile::threads>(values, Tile::stride, rows.v, rows.pitch, k0,
                                                   shape.sequence, shape.head, depth);
    __syncthreads();
    bf16::dot_rows<Tile>(slice, own, streamed, depth);
#pragma unroll
    for (int i = 0; i < Tile::columns_each; ++i) {
      const int column = at.column(i);
      const std::int64_t s = k0 + column;
      float weight = 0;
      if (s <= t && t < shape.sequence) {
        weight = expf(slice[at.row * Tile::score_stride + column] * shape.scale - total) *
                 attention_dropout(shape, rows.b, rows.h, t, s);
      }
      weights[at.row * Tile::weight_stride + column] = Bfloat16(weight);
    }
    bf16::add_weighted_rows<Tile>(sum, weights, values, depth);
  }
  bf16::store_rows<Tile>(out + rows.output(shape), shape.channels, first, shape.sequence,
                         shape.head, slice, sum, 1.0F);
#endif
}

/// dQ = scale dS K for one tile of queries, dS = P (drop(dO V^T) - delta), P = exp(scale Q K^T - lse).
template <int Head>
REEF_HIDDEN __global__ void __launch_bounds__(128)
    attention_backward_queries_bf16_kernel(Bfloat16* d_qkv, const Bfloat16* d_out,
                                           const Bfloat16* qkv, const float* lse,
                                           const float* delta, AttentionShape<float> shape) {
#if REEF_BF16_TENSOR_CORES
  using Tile = Bf16Tile<Head>;
  const bf16::Place at = bf16::here();
  const int depth = (shape.head + Tile::side - 1) / Tile::side * Tile::side;
  Bfloat16* const queries = reinterpret_cast<Bfloat16*>(attention_shared);
  Bfloat16* const gradients = queries + Tile::own * Tile::stride;
  Bfloat16* const keys = gradients + Tile::own * Tile::stride;
  Bfloat16* const values = keys + Tile::streamed * Tile::stride;
  float* const slices = reinterpret_cast<float*>(values + Tile::streamed * Tile::stride);
  float* const slice = slices + at.warp * Tile::side * Tile::score_stride;
  Bfloat16* const weights = reinterpret_cast<Bfloat16*>(slices + Tile::own * Tile::score_stride) +
                            at.warp * Tile::side * Tile::weight_stride;
  const int own = at.warp * Tile::side * Tile::stride;

  const auto rows = attention_rows<Tile::own>(qkv, shape, true);
  const std::int64_t q0 = rows.first;
  const Bfloat16* const d_o = d_out + rows.output(shape);
  const std::int64_t first = q0 + at.warp * Tile::side;
  const std::int64_t t = first + at.row;
  const std::int64_t statistics = rows.statistics(shape);
  const float row_lse = t < shape.sequence ? lse[statistics + t] : 0.0F;
  const float row_delta = t < shape.sequence ? delta[statistics + t] : 0.0F;
  bf16::load_rows<Tile::own, Tile::threads>(queries, Tile::stride, rows.q, rows.pitch, q0,
                                            shape.sequence, shape.head, depth);
  bf16::load_rows<Tile::own, Tile::threads>(gradients, Tile::stride, d_o, shape.channels, q0,
                                            shape.sequence, shape.head, depth);

  bf16::Sum sum[Head / Tile::side];
#pragma unroll
  for (auto& block : sum) nvcuda::wmma::fill_fragment(block, 0.0F);
  const std::int64_t end = q0 + Tile::own < shape.sequence ? q0 + Tile::own : shape.sequence;
  for (std::int64_t k0 = 0; k0 < end; k0 += Tile::streamed) {
    __syncthreads();  // the former keys and values have been read
    bf16::load_rows<Tile::streamed, Tile::threads>(keys, Tile::stride, rows.k, rows.pitch, k0,
                                                   shape.sequence, shape.head, depth);
    bf16::load_rows<Tile::streamed, Tile::threads>(values, Tile::stride, rows.v, rows.pitch, k0,
                                                   shape.sequence, shape.head, depth);
    __syncthreads();
    bf16::dot_rows<Tile>(slice, queries + own, keys, depth);
    float weight[Tile::columns_each];
#pragma unroll
    for (int i = 0; i < Tile::columns_each; ++i) {
      const std::int64_t s = k0 + at.column(i);
      const float score = slice[at.row * Tile::score_stride + at.column(i)];
      weight[i] = s <= t && t < shape.sequence ? expf(score * shape.scale - row_lse) : 0.0F;
    }
    __syncwarp();  // the scores have been read
    bf16::dot_rows<Tile>(slice, gradients + own, values, depth);
#pragma unroll
    for (int i = 0; i < Tile::columns_each; ++i) {
      const int column = at.column(i);
      const float d_weight = slice[at.row * Tile::score_stride + column];
      const float drop = attention_dropout(shape, rows.b, rows.h, t, k0 + column);
      weights[at.row * Tile::weight_stride + column] =
          Bfloat16(weight[i] * (drop * d_weight - row_delta));
    }
    bf16::add_weighted_rows<Tile>(sum, weights, keys, depth);
  }
  bf16::store_rows<Tile>(d_qkv + rows.corner, rows.pitch, first, shape.sequence, shape.head, slice,
                         sum, shape.scale);
#endif
}

/// dV = drop(P)^T dO and dK = scale dS^T Q for one tile of keys, over the queries from there on.
template <int Head>
REEF_HIDDEN __global__ void __launch_bounds__(128)
    attention_backward_keys_bf16_kernel(Bfloat16* d_qkv, const Bfloat16* d_out, const Bfloat16* qkv,
                                        const float* lse, const float* delta,
                                        AttentionShape<float> shape) {
#if REEF_BF16_TENSOR_CORES
  using Tile = Bf16Tile<Head>;
  const bf16::Place at = bf16::here();
  const int depth = (shape.head + Tile::side - 1) / Tile::side * Tile::side;
  Bfloat16* const keys = reinterpret_cast<Bfloat16*>(attention_shared);
  Bfloat16* const values = keys + Tile::own * Tile::stride;
  Bfloat16* const queries = values + Tile::own * Tile::stride;
  Bfloat16* const gradients = queries + Tile::streamed * Tile::stride;
  float* const slices = reinterpret_cast<float*>(gradients + Tile::streamed * Tile::stride);
  float* const slice = slices + at.warp * Tile::side * Tile::score_stride;
  Bfloat16* const weights = reinterpret_cast<Bfloat16*>(slices + Tile::own * Tile::score_stride) +
                            at.warp * Tile::side * Tile::weight_stride;
  const int own = at.warp * Tile::side * Tile::stride;

  const auto rows = attention_rows<Tile::own>(qkv, shape, false);
  const std::int64_t k0 = rows.first;
  const Bfloat16* const d_o = d_out + rows.output(shape);
  const std::int64_t statistics = rows.statistics(shape);
  const std::int64_t first = k0 + at.warp * Tile::side;
  const std::int64_t s = first + at.row;
  bf16::load_rows<Tile::own, Tile::threads>(keys, Tile::stride, rows.k, rows.pitch, k0,
                                            shape.sequence, shape.head, depth);
  bf16::load_rows<Tile::own, Tile::threads>(values, Tile::stride, rows.v, rows.pitch, k0,
                                            shape.sequence, shape.head, depth);

  bf16::Sum d_key[Head / Tile::side];
  bf16::Sum d_value[Head / Tile::side];
#pragma unroll
  for (auto& block : d_key) nvcuda::wmma::fill_fragment(block, 0.0F);
#pragma unroll
  for (auto& block : d_value) nvcuda::wmma::fill_fragment(block, 0.0F);
  for (std::int64_t q0 = k0; q0 < shape.sequence; q0 += Tile::streamed) {
    __syncthreads();  // the former queries and gradients have been read
    bf16::load_rows<Tile::streamed, Tile::threads>(queries, Tile::stride, rows.q, rows.pitch, q0,
                                                   shape.sequence, shape.head, depth);
    bf16::load_rows<Tile::streamed, Tile::threads>(gradients, Tile::stride, d_o, shape.channels, q0,
                                                   shape.sequence, shape.head, depth);
    __syncthreads();
    bf16::dot_rows<Tile>(slice, keys + own, queries, depth);
    float weight[Tile::columns_each];
    float drop[Tile::columns_each];
#pragma unroll
    for (int i = 0; i < Tile::columns_each; ++i) {
      const int column = at.column(i);
      const std::int64_t t = q0 + column;
      const bool seen = s <= t && t < shape.sequence;
      const float score = slice[at.row * Tile::score_stride + column];
      weight[i] = seen ? expf(score * shape.scale - lse[statistics + t]) : 0.0F;
      drop[i] = seen ? attention_dropout(shape, rows.b, rows.h, t, s) : 0.0F;
      weights[at.row * Tile::weight_stride + column] = Bfloat16(weight[i] * drop[i]);
    }
    bf16::add_weighted_rows<Tile>(d_value, weights, gradients, depth);
    bf16::dot_rows<Tile>(slice, values + own, gradients, depth);
#pragma unroll
    for (int i = 0; i < Tile::columns_each; ++i) {
      const int column = at.column(i);
      const std::int64_t t = q0 + column;
      const float d_weight = slice[at.row * Tile::score_stride + column];
      const float row_delta = t < shape.sequence ? delta[statistics + t] : 0.0F;
      weights[at.row * Tile::weight_stride + column] =
          Bfloat16(weight[i] * (drop[i] * d_weight - row_delta));
    }
    bf16::add_weighted_rows<Tile>(d_key, weights, queries, depth);
  }
  bf16::store_rows<Tile>(d_qkv + rows.corner + shape.channels, rows.pitch, first, shape.sequence,
                         shape.head, slice, d_key, shape.scale);
  bf16::store_rows<Tile>(d_qkv + rows.corner + 2 * shape.channels, rows.pitch, first,
                         shape.sequence, shape.head, slice, d_value, 1.0F);
#endif
}

}  // namespace reef::inline v0::nn::cuda
