#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <mma.h>

#include <reef/core/bfloat16.hpp>
#include <reef/core/config.hpp>
#include <reef/nn/cuda/attention_tile.cuh>

namespace reef::inline v0::nn::cuda {

/// A block of bf16 attention on tensor cores: 4 warps, each responsible for 16 of the block's 64 own
/// rows, against `streamed` rows of the other side at a time. Products of bf16 are summed in fp32;
/// weights and their gradients are rounded to bf16 before they are multiplied, as in FlashAttention.
///
/// | memory | rows of bf16, then a slice of (16, streamed) fp32 and one of bf16 for each warp       |
/// | stride | of rows: a multiple of 16 bytes and of no more, so that eight rows lie in eight       |
/// |        | groups of banks. Every 16 x 16 begins at a multiple of 32 bytes, as wmma wants it     |
///
/// Source: Dao et al., FlashAttention, arXiv 2205.14135, algorithms 1 and 4.
template <int Head>
struct Bf16Tile {
  static constexpr int warps = 4;
  static constexpr int threads = warps * device::cuda_warp;
  static constexpr int side = 16;  // of what the tensor cores multiply
  static constexpr int own = warps * side;
  static constexpr int streamed = 32;
  static constexpr int stride = Head + 8;             // of rows, in bf16
  static constexpr int score_stride = streamed + 4;   // in fp32
  static constexpr int weight_stride = streamed + 8;  // in bf16
  static constexpr int columns_each = streamed / 2;   // of a slice's row: a thread has every other

  /// Bytes of `own_tiles` tiles of own rows, `streamed_tiles` of streamed ones and the slices.
  static constexpr std::size_t shared_bytes(int own_tiles, int streamed_tiles) {
    return sizeof(Bfloat16) *
               static_cast<std::size_t>((own_tiles * own + streamed_tiles * streamed) * stride) +
           static_cast<std::size_t>(own) *
               (sizeof(float) * score_stride + sizeof(Bfloat16) * weight_stride);
  }
  static_assert(stride % 16 == 8 && weight_stride % 8 == 0 && score_stride % 4 == 0);
  static_assert(shared_bytes(2, 2) <= 99 * 1024);  // what every device with these tensor cores has
};

#if REEF_BF16_TENSOR_CORES

namespace bf16 {

using Factor = __nv_bfloat16;
using Sum = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;
using Left =
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, Factor, nvcuda::wmma::row_major>;
template <class Layout>
using Right = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, Factor, Layout>;

__device__ __forceinline__ const Factor* factors(const Bfloat16* rows) {
  return reinterpret_cast<const Factor*>(rows);
}

/// Where a thread is: two threads have a row of their warp's slice, one its even columns, one its odd.
struct Place {
  int warp, row, odd;
  [[nodiscard]] __device__ int column(int i) const { return 2 * i + odd; }
};
__device__ __forceinline__ Place here() {
  const int thread = static_cast<int>(threadIdx.x);
  return {thread / device::cuda_warp, thread % device::cuda_warp / 2, thread % 2};
}

/// Rows first, first + 1, ... of a head to shared memory, `depth` channels each, a multiple of 16 from
/// head on; zeros behind the head and behind the sequence's end. By 16 bytes where rows lie so.
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
      uint4 piece{0, 0, 0, 0};
      if (first + row < sequence && c < head) {
        piece = *reinterpret_cast<const uint4*>(from + (first + row) * pitch + c);
      }
      *reinterpret_cast<uint4*>(to + row * stride + c) = piece;
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

/// slice (16, streamed) = a warp's own rows times the streamed rows, transposed.
template <class Tile>
__device__ __forceinline__ void dot_rows(float* slice, const Bfloat16* own,
                                         const Bfloat16* streamed, int depth) {
#pragma unroll
  for (int s = 0; s < Tile::streamed; s += Tile::side) {
    Sum sum;
    nvcuda::wmma::fill_fragment(sum, 0.0F);
    for (int d = 0; d < depth; d += Tile::side) {
      Left left;
      Right<nvcuda::wmma::col_major> right;
      nvcuda::wmma::load_matrix_sync(left, factors(own + d), Tile::stride);
      nvcuda::wmma::load_matrix_sync(right, factors(streamed + s * Tile::stride + d), Tile::stride);
      nvcuda::wmma::mma_sync(sum, left, right, sum);
    }
    nvcuda::wmma::store_matrix_sync(slice + s, sum, Tile::score_stride,
                                    nvcuda::wmma::mem_row_major);
  }
  __syncwarp();
}

/// sum (16, depth) += a warp's weights (16, streamed) times the streamed rows.
template <class Tile, int Blocks>
__device__ __forceinline__ void add_weighted_rows(Sum (&sum)[Blocks], const Bfloat16* weights,
                                                  const Bfloat16* streamed, int depth) {
  __syncwarp();  // the weights are written
#pragma unroll
  for (int s = 0; s < Tile::streamed; s += Tile::side) {
    Left left;
    nvcuda::wmma::load_matrix_sync(left, factors(weights + s), Tile::weight_stride);
#pragma unroll
    for (int j = 0; j < Blocks; ++j) {
      if (j * Tile::side >= depth) continue;
      Right<nvcuda::wmma::row_major> right;
      nvcuda::wmma::load_matrix_sync(right, factors(streamed + s * Tile::stride + j * Tile::side),
                                     Tile::stride);
      nvcuda::wmma::mma_sync(sum[j], left, right, sum[j]);
    }
  }
}

/// Rows first, first + 1, ... of a head = sum times factor, rounded; by way of the warp's slice.
template <class Tile, int Blocks>
__device__ __forceinline__ void store_rows(Bfloat16* to, std::int64_t pitch, std::int64_t first,
                                           std::int64_t sequence, int head, float* slice,
                                           const Sum (&sum)[Blocks], float factor) {
  const Place place = here();
  const std::int64_t row = first + place.row;
#pragma unroll
  for (int j = 0; j < Blocks; ++j) {
    if (j * Tile::side >= head) continue;
    __syncwarp();  // the slice has been read
    nvcuda::wmma::store_matrix_sync(slice, sum[j], Tile::score_stride, nvcuda::wmma::mem_row_major);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Tile::side / 2; ++i) {
      const int c = place.column(i);
      if (row < sequence && j * Tile::side + c < head) {
        to[row * pitch + j * Tile::side + c] =
            Bfloat16(slice[place.row * Tile::score_stride + c] * factor);
      }
    }
  }
}

}  // namespace bf16

#endif

}  // namespace reef::inline v0::nn::cuda
