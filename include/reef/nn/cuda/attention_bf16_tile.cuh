#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/core/bfloat16.hpp>
#include <reef/core/config.hpp>
#include <reef/nn/cuda/attention_tile.cuh>
#include <reef/nn/cuda/warp_mma.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// A block of bf16 attention on tensor cores: 4 warps, each responsible for 16 of the block's own
/// rows, against `streamed` rows of the other side at a time, while the next ones are being loaded.
/// Products of bf16 are summed in fp32 in registers; weights and their gradients are
/// rounded to bf16 before they are multiplied.
///
/// | memory | own rows of bf16, then two stages of streamed rows, of two kinds each, then floats      |
/// | stride | the row stride is a multiple of 16 bytes, but not of 32, so that eight rows use eight   |
/// |        | groups of banks                                                                         |
///
/// Source: Dao, FlashAttention-2, arXiv 2307.08691, algorithms 1 and 2; here each gradient has a pass
/// of its own, so that each sum has one owner.
template <int Head>
struct Bf16Tile {
  static constexpr int warps = 4;
  static constexpr int threads = warps * device::cuda_warp;
  static constexpr int side = 16;  // the rows of a Left factor
  static constexpr int own = warps * side;
  static constexpr int streamed = Head <= 64 ? 64 : 32;
  static constexpr int stride = Head + 8;  // the row stride, in numbers of bf16
  static constexpr int depths = Head / side;
  static constexpr int columns = streamed / 8;  // the columns of scores, in Sums
  static constexpr int channels = Head / 8;     // the channels of the sums, in Sums

  /// Returns the bytes of `own_kinds` kinds of own rows, of both stages, and of `floats` for each streamed row.
  static constexpr std::size_t shared_bytes(int own_kinds, int floats) {
    return sizeof(Bfloat16) * static_cast<std::size_t>((own_kinds * own + 4 * streamed) * stride) +
           sizeof(float) * static_cast<std::size_t>(2 * floats * streamed);
  }
  static_assert(stride % 16 == 8);
  static_assert(shared_bytes(2, 2) <= 99 * 1024);  // what every device with these tensor cores has
};

#if REEF_BF16_TENSOR_CORES

namespace bf16 {

/// The position of a thread's numbers in a Sum: rows `row` and `row` + 8 of columns `column` and `column` + 1.
struct Place {
  int warp, row, column;
};
__device__ __forceinline__ Place here() {
  return {static_cast<int>(threadIdx.x) / device::cuda_warp, mma::lane() / 4, mma::lane() % 4 * 2};
}

/// Starts to load rows first, first + 1, ... of a head to shared memory, `depth` channels each (a multiple of 16, at
/// least head), with zeros behind the head and behind the sequence's end; 16 bytes at once if rows are aligned so.
template <int Rows, int Threads>
__device__ __forceinline__ void load_rows(Bfloat16* to, int stride, const Bfloat16* from,
                                          std::int64_t pitch, std::int64_t first,
                                          std::int64_t sequence, int head, int depth) {
  const bool whole =
      head % 8 == 0 && pitch % 8 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  if (whole) {
    const int pieces = depth / 8;
    for (int i = static_cast<int>(threadIdx.x); i < Rows * pieces; i += Threads) {
      const int row = i / pieces;
      const int c = i % pieces * 8;
      const bool inside = first + row < sequence && c < head;
      mma::copy_async<16>(to + row * stride + c, inside ? from + (first + row) * pitch + c : from,
                          inside);
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < Rows * depth; i += Threads) {
    const int row = i / depth;
    const int c = i % depth;
    const bool inside = first + row < sequence && c < head;
    to[row * stride + c] = inside ? from[(first + row) * pitch + c] : Bfloat16(0.0F);
  }
}

/// Loads a warp's own rows as factors, `depth` channels of each.
template <class Tile>
__device__ __forceinline__ void load_own(mma::Left (&factors)[Tile::depths], const Bfloat16* own,
                                         int depth) {
#pragma unroll
  for (int d = 0; d < Tile::depths; ++d) {
    if (d * Tile::side < depth) factors[d] = mma::load_left(own + d * Tile::side, Tile::stride);
  }
}

/// Computes scores = own rows times the streamed rows, transposed.
template <class Tile>
__device__ __forceinline__ void dot_rows(mma::Sum (&scores)[Tile::columns],
                                         const mma::Left (&own)[Tile::depths],
                                         const Bfloat16* streamed, int depth) {
#pragma unroll
  for (mma::Sum& score : scores) score = {};
#pragma unroll
  for (int d = 0; d < Tile::depths; ++d) {
    if (d * Tile::side >= depth) continue;
#pragma unroll
    for (int s = 0; s < Tile::columns; s += 2) {
      mma::Right rows[2];
      mma::load_rights_of_rows(rows, streamed + s * 8 * Tile::stride + d * Tile::side,
                               Tile::stride);
      mma::multiply_add(scores[s], own[d], rows[0]);
      mma::multiply_add(scores[s + 1], own[d], rows[1]);
    }
  }
}

/// Adds slope (key - query) to scores that are not scaled yet. `ahead` is key - query of this thread's first number;
/// `sign` is 1 if queries are the own rows, -1 if keys are.
template <class Tile>
__device__ __forceinline__ void add_alibi(mma::Sum (&scores)[Tile::columns], float slope, int ahead, int sign) {
#pragma unroll
  for (int s = 0; s < Tile::columns; ++s) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      scores[s].part[i] += slope * static_cast<float>(ahead + sign * (s * 8 + i % 2 - i / 2 * 8));
  }
}

/// Returns sums of 16 columns, rounded to bf16, as the left factor of the next product.
__device__ __forceinline__ mma::Left rounded(const mma::Sum& first, const mma::Sum& second) {
  return {mma::pair(first.part[0], first.part[1]), mma::pair(first.part[2], first.part[3]),
          mma::pair(second.part[0], second.part[1]), mma::pair(second.part[2], second.part[3])};
}

/// Adds the weights, rounded to bf16, times the streamed rows to `sum`.
template <class Tile>
__device__ __forceinline__ void add_weighted_rows(mma::Sum (&sum)[Tile::channels],
                                                  const mma::Sum (&weights)[Tile::columns],
                                                  const Bfloat16* streamed, int depth) {
#pragma unroll
  for (int s = 0; s < Tile::columns; s += 2) {
    const mma::Left left = rounded(weights[s], weights[s + 1]);
#pragma unroll
    for (int c = 0; c < Tile::channels; c += 2) {
      if (c * 8 >= depth) continue;
      mma::Right columns[2];
      mma::load_rights_of_columns(columns, streamed + s * 8 * Tile::stride + c * 8, Tile::stride);
      mma::multiply_add(sum[c], left, columns[0]);
      mma::multiply_add(sum[c + 1], left, columns[1]);
    }
  }
}

/// Stores 16 rows of sums, rounded, to rows first, first + 1, ... of a head; factors scale this thread's two rows.
template <int Channels>
__device__ __forceinline__ void store_rows(Bfloat16* to, std::int64_t pitch, std::int64_t first,
                                           std::int64_t sequence, int head,
                                           const mma::Sum (&sum)[Channels], float factor,
                                           float second_factor) {
  const Place at = here();
  const bool whole =
      head % 2 == 0 && pitch % 2 == 0 && reinterpret_cast<std::uintptr_t>(to) % 4 == 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = first + at.row + 8 * half;
    if (row >= sequence) continue;
    const float scale = half == 0 ? factor : second_factor;
#pragma unroll
    for (int i = 0; i < Channels; ++i) {
      const int c = i * 8 + at.column;
      Bfloat16* const place = to + row * pitch + c;
      const float left = sum[i].part[2 * half] * scale;
      const float right = sum[i].part[2 * half + 1] * scale;
      if (whole && c < head) {
        *reinterpret_cast<mma::Pair*>(place) = mma::pair(left, right);
      } else {
        if (c < head) place[0] = Bfloat16(left);
        if (c + 1 < head) place[1] = Bfloat16(right);
      }
    }
  }
}

/// The sum, or the maximum, over the four threads that share rows, in each of them.
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}
__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 2));
}

}  // namespace bf16

#endif

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
