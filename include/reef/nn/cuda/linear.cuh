#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>
#include <reef/nn/cuda/column_strands.cuh>
#include <reef/nn/cuda/gemm.cuh>
#include <reef/nn/cuda/packed_rows.cuh>
#include <reef/nn/detail/linear_gradients.hpp>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// A function that adds bias (N) to every row of out (R, N), for products to which cuBLASLt adds no bias.
template <class T>
struct AddBias {
  T* out;
  const T* bias;
  std::int64_t columns;

  __device__ void operator()(std::int64_t i) const { out[i] = T(out[i] + bias[i % columns]); }
};

/// The partition of the rows in Columns::sum: they are summed in `parts` ranges of `part_rows` rows, then the
/// ranges' sums in ascending order. It depends on R and N alone.
struct ColumnSplit {
  std::int64_t part_rows;
  std::int64_t parts;

  /// Chooses at most 64 parts of at least 64 rows, and no more than fit in `bytes` of scratch memory.
  ColumnSplit(std::int64_t rows, std::int64_t columns, std::size_t element, Bytes bytes) {
    const auto row_bytes = static_cast<std::int64_t>(element) * std::max<std::int64_t>(columns, 1);
    const std::int64_t fit = static_cast<std::int64_t>(bytes) / row_bytes;
    const std::int64_t wanted = std::min<std::int64_t>({64, (rows + 63) / 64, fit});
    parts = std::max<std::int64_t>(wanted, 1);
    part_rows = (rows + parts - 1) / parts;
  }
};

/// Computes target[c] (+)= sum of in[r, c] over the rows r of part p; if there are several parts, writes
/// the sum to row p of target.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(column_strands * device::cuda_warp)
    column_sums_kernel(sum_t<T>* target, const T* in, std::int64_t rows, std::int64_t columns,
                       std::int64_t part_rows, bool accumulate, bool packed) {
  using E = sum_t<T>;
  using device::Pack;
  __shared__ typename ColumnStrand<T>::Shared strands;
  const ColumnStrand<T> own(rows, columns, part_rows, packed);
  E sum[Pack<T>::width] = {};
  if (own.inside) {
    for (std::int64_t row = own.first + own.y; row < own.last; row += column_strands) {
      const T* const from = in + row * columns + own.column;
      if (packed) {
        const Pack<T> pack = Pack<T>::load(from);
        for_each_element<T>(Pack<T>::width, [&](int e) { sum[e] += pack.element[e]; });
      } else {
        sum[0] += from[0];
      }
    }
  }
  own.fold(strands, sum, [&](int e, E of_column) {
    E& element = target[own.part * columns + own.column + e];
    element = accumulate ? element + of_column : of_column;
  });
}

/// Sums over the rows of a matrix (R, N).
///
/// | order   | fixed by R and N: eight strands in each range of rows, then the ranges ascending |
/// | scratch | the lane's own workspace                                                         |
struct Columns {
  template <real T>
  static void sum(device::Cuda::Lane& lane, sum_t<T>* out, const T* in, std::int64_t rows, std::int64_t columns,
                  bool accumulate) {
    using E = sum_t<T>;
    const ColumnSplit split(rows, columns, sizeof(E), device::detail::CudaBlas::workspace_bytes);
    const auto fold = [&]<class From>(E* target, const From* from, std::int64_t count,
                                      std::int64_t part_rows, std::int64_t parts, bool add) {
      const bool packed = packed_rows<From>(columns, from);
      device::launch(lane, "column_sums", &column_sums_kernel<From>, column_tiles<From>(columns, packed) * parts,
                     column_strands * device::cuda_warp, 0, target, from, count, columns, part_rows, add, packed);
    };
    if (split.parts == 1) return fold(out, in, rows, rows, 1, accumulate);
    E* const partial = static_cast<E*>(lane.blas().workspace());  // (parts, N)
    fold(partial, in, rows, split.part_rows, split.parts, false);
    fold(out, static_cast<const E*>(partial), split.parts, split.parts, 1, accumulate);
  }
};

/// The members of Kernels<device::Cuda> for affine maps.
struct LinearKernels : nn::detail::LinearGradients<device::Cuda, GemmKernels, Columns> {
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
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
