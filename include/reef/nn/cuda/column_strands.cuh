#pragma once

#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>
#include <reef/nn/cuda/packed_rows.cuh>

/// Sums over the rows of a matrix (R, C), in parts of the rows. A block sums a part of 32 columns or, if rows are
/// `packed`, of 32 packs: each of its 8 warps sums every eighth row, a strand; then the first warp adds the strands in
/// order.
namespace reef {
inline namespace v0 {
namespace nn::cuda {

inline constexpr int column_strands = 8;

/// Returns the number of blocks that compute one part of the rows.
template <class T>
__host__ __device__ std::int64_t column_tiles(std::int64_t columns, bool packed) {
  const std::int64_t tile = device::cuda_warp * (packed ? device::Pack<T>::width : 1);
  return (columns + tile - 1) / tile;
}

/// The sum of one thread: rows first + y, first + y + 8, ... below `last`, `width` columns from `column` on.
template <class T>
struct ColumnStrand {
  using E = sum_t<T>;
  using Shared = E[column_strands][device::cuda_warp * device::Pack<T>::width + 1];

  int width;
  int x;
  int y;
  std::int64_t part;
  std::int64_t column;
  std::int64_t first;
  std::int64_t last;
  bool inside;  ///< whether the column is in the matrix

  __device__ __forceinline__ ColumnStrand(std::int64_t rows, std::int64_t columns, std::int64_t part_rows,
                                          bool packed) {
    width = packed ? device::Pack<T>::width : 1;
    const std::int64_t tile = device::cuda_warp * width;
    const std::int64_t tiles = column_tiles<T>(columns, packed);
    part = blockIdx.x / tiles;
    x = static_cast<int>(threadIdx.x) % device::cuda_warp * width;
    y = static_cast<int>(threadIdx.x) / device::cuda_warp;
    column = blockIdx.x % tiles * tile + x;
    first = part * part_rows;
    last = first + part_rows < rows ? first + part_rows : rows;
    inside = column < columns;
  }

  /// Calls add(row, width) for each row of the strand.
  template <class F>
  __device__ __forceinline__ void for_each_row(const F& add) const {
    if (!inside) return;
    for (std::int64_t row = first + y; row < last; row += column_strands) {
      if (width > 1) {
        add(row, device::Pack<T>::width);
      } else {
        add(row, 1);
      }
    }
  }

  /// Adds the other strands' sums to those of the first strand, whose threads call put(e, sum) for each element of a
  /// pack.
  template <class F>
  __device__ __forceinline__ void fold(Shared& strands, E (&sums)[device::Pack<T>::width], const F& put) const {
    for_each_element<T>(width, [&](int e) { strands[y][x + e] = sums[e]; });
    __syncthreads();
    if (y != 0 || !inside) return;
    for_each_element<T>(width, [&](int e) {
      for (int strand = 1; strand < column_strands; ++strand) sums[e] += strands[strand][x + e];
      put(e, sums[e]);
    });
  }
};

/// Writes, or adds to, first[c] the sum of partial[part, c] over `parts` rows in ascending order, and second[c], unless
/// it is null, that of the rows behind them; one thread for each column.
template <class E>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    fold_parts_kernel(E* first, E* second, const E* partial, std::int64_t columns, std::int64_t parts,
                      bool accumulate) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= columns) return;
  const auto fold = [&](E* to, const E* from) {
    E sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += from[part * columns + c];
    to[c] = accumulate ? to[c] + sum : sum;
  };
  fold(first, partial);
  if (second != nullptr) fold(second, partial + parts * columns);
}

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
