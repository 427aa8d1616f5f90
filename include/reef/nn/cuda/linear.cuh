#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>
#include <reef/nn/cuda/gemm.cuh>
#include <reef/nn/cuda/packed_rows.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// Adds bias (N) to every row of out (R, N): of products to which cuBLASLt adds none.
template <class T>
struct AddBias {
  T* out;
  const T* bias;
  std::int64_t columns;

  __device__ void operator()(std::int64_t i) const { out[i] = T(out[i] + bias[i % columns]); }
};

/// Where column_sums puts what: rows are summed in `parts` ranges of `part_rows` rows, then the
/// ranges' sums ascending. Follows from R and N alone.
struct ColumnSplit {
  std::int64_t part_rows;
  std::int64_t parts;

  /// At most 64 parts of at least 64 rows, and no more than fit in `bytes` of scratch.
  ColumnSplit(std::int64_t rows, std::int64_t columns, std::size_t element, Bytes bytes) {
    const auto row_bytes = static_cast<std::int64_t>(element) * std::max<std::int64_t>(columns, 1);
    const std::int64_t fit = static_cast<std::int64_t>(bytes) / row_bytes;
    const std::int64_t wanted = std::min<std::int64_t>({64, (rows + 63) / 64, fit});
    parts = std::max<std::int64_t>(wanted, 1);
    part_rows = (rows + parts - 1) / parts;
  }
};

/// target[c] (+)= sum of the rows r of part p of in[r, c]; with more than one part it is written to
/// row p of target. Blocks of 8 row strands, of 32 columns or, where rows are `packed`, 32 packs of them; a block for
/// each part.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(8 * device::cuda_warp)
    column_sums_kernel(sum_t<T>* target, const T* in, std::int64_t rows, std::int64_t columns,
                       std::int64_t part_rows, bool accumulate, bool packed) {
  using E = sum_t<T>;
  using device::Pack;
  __shared__ E strands[8][device::cuda_warp * Pack<T>::width + 1];
  const int width = packed ? Pack<T>::width : 1;
  const std::int64_t tile = device::cuda_warp * width;
  const std::int64_t tiles = (columns + tile - 1) / tile;
  const std::int64_t part = blockIdx.x / tiles;
  const int x = static_cast<int>(threadIdx.x) % device::cuda_warp * width;
  const int y = static_cast<int>(threadIdx.x) / device::cuda_warp;
  const std::int64_t column = blockIdx.x % tiles * tile + x;
  const std::int64_t first = part * part_rows;
  const std::int64_t last = first + part_rows < rows ? first + part_rows : rows;
  E sum[Pack<T>::width] = {};
  if (column < columns) {
    for (std::int64_t row = first + y; row < last; row += 8) {
      const T* const from = in + row * columns + column;
      if (packed) {
        const Pack<T> pack = Pack<T>::load(from);
        for_each_element<T>(Pack<T>::width, [&](int e) { sum[e] += pack.element[e]; });
      } else {
        sum[0] += from[0];
      }
    }
  }
  for_each_element<T>(width, [&](int e) { strands[y][x + e] = sum[e]; });
  __syncthreads();
  if (y != 0 || column >= columns) return;
  for_each_element<T>(width, [&](int e) {
    for (int strand = 1; strand < 8; ++strand) sum[e] += strands[strand][x + e];
    E& element = target[part * columns + column + e];
    element = accumulate ? element + sum[e] : sum[e];
  });
}

/// out[c] (+)= sum over the rows of in (R, N).
///
/// | order   | fixed by R and N: eight strands in each range of rows, then the ranges ascending |
/// | scratch | the lane's own                                                                   |
template <real T>
void column_sums(device::Cuda::Lane& lane, sum_t<T>* out, const T* in, std::int64_t rows,
                 std::int64_t columns, bool accumulate) {
  using E = sum_t<T>;
  const ColumnSplit split(rows, columns, sizeof(E), device::detail::CudaBlas::workspace_bytes);
  const auto sum = [&]<class From>(E* target, const From* from, std::int64_t count,
                                   std::int64_t part_rows, std::int64_t parts, bool add) {
    const bool packed = packed_rows<From>(columns, from);
    const std::int64_t tile = device::cuda_warp * (packed ? device::Pack<From>::width : 1);
    device::launch(lane, "column_sums", &column_sums_kernel<From>,
                   (columns + tile - 1) / tile * parts, 8 * device::cuda_warp, 0, target, from,
                   count, columns, part_rows, add, packed);
  };
  if (split.parts == 1) return sum(out, in, rows, rows, 1, accumulate);
  E* const partial = static_cast<E*>(lane.blas().workspace());  // (parts, N)
  sum(partial, in, rows, split.part_rows, split.parts, false);
  sum(out, static_cast<const E*>(partial), split.parts, split.parts, 1, accumulate);
}

/// The affine map of Kernels<device::Cuda>.
struct LinearKernels {
  template <real T>
  static Bytes linear_forward_workspace(std::int64_t, std::int64_t, std::int64_t, Transpose, int) {
    return 0;
  }
  template <real T>
  static Bytes linear_backward_workspace(std::int64_t, std::int64_t, std::int64_t, Transpose, int) {
    return 0;
  }

  template <real T>
  static void linear_forward(device::Cuda::Lane& lane, T* out, const T* in, const T* w,
                             const T* bias, std::int64_t R, std::int64_t K, std::int64_t N,
                             Transpose tw, void* workspace) {
    using E = sum_t<T>;
    const std::int64_t ldw = tw == Transpose::no ? N : K;
    if (bias != nullptr && R > 0 && N > 0 && K > 0 &&
        lane.blas().product_with_bias({tw == Transpose::yes, false, N, R, K, ldw, K, N}, w, in,
                                      bias, out)) {
      return;
    }
    GemmKernels::gemm(lane, Transpose::no, tw, R, N, K, E(1), in, K, w, ldw, E(0), out, N,
                      workspace);
    if (bias != nullptr) device::for_each_index(lane, R * N, AddBias<T>{out, bias, N});
  }

  template <real T>
  static void linear_backward_input(device::Cuda::Lane& lane, T* d_in, const T* d_out, const T* w,
                                    std::int64_t R, std::int64_t K, std::int64_t N, Transpose tw,
                                    bool accumulate, void* workspace) {
    using E = sum_t<T>;
    const Transpose turned = tw == Transpose::no ? Transpose::yes : Transpose::no;
    GemmKernels::gemm(lane, Transpose::no, turned, R, K, N, E(1), d_out, N, w,
                      tw == Transpose::no ? N : K, accumulate ? E(1) : E(0), d_in, K, workspace);
  }

  template <real T>
  static void linear_backward_weight(device::Cuda::Lane& lane, sum_t<T>* d_w, sum_t<T>* d_bias,
                                     const T* in, const T* d_out, std::int64_t R, std::int64_t K,
                                     std::int64_t N, Transpose tw, bool accumulate,
                                     void* workspace) {
    using E = sum_t<T>;
    const E beta = accumulate ? E(1) : E(0);
    if (tw == Transpose::no) {
      GemmKernels::gemm(lane, Transpose::yes, Transpose::no, K, N, R, E(1), in, K, d_out, N, beta,
                        d_w, N, workspace);
    } else {
      GemmKernels::gemm(lane, Transpose::yes, Transpose::no, N, K, R, E(1), d_out, N, in, K, beta,
                        d_w, K, workspace);
    }
    if (d_bias != nullptr) column_sums(lane, d_bias, d_out, R, N, accumulate);
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
