#pragma once

#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// A function that scales the elements of a row-major matrix with a leading dimension.
template <class T>
struct ScaleMatrix {
  using E = sum_t<T>;
  T* c;
  std::int64_t columns, ldc;
  E beta;

  __device__ void operator()(std::int64_t i) const {
    T& element = c[i / columns * ldc + i % columns];
    element = T(beta == E(0) ? E(0) : beta * element);
  }
};

/// The matrix product of Kernels<device::Cuda>.
struct GemmKernels {
  /// Returns 0: cuBLASLt uses the lane's own workspace.
  template <real T>
  static Bytes gemm_workspace(Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, int) {
    return 0;
  }

  /// Computes C(m,n) = alpha op(A) op(B) + beta C, row-major, by cuBLASLt: sums in full fp32 or fp64.
  ///
  /// | order | fixed for a shape and a device; sums split over k are added up in a separate step      |
  /// | beta  | with 0, C is not read                                                                  |
  /// | bf16  | C is bf16 or fp32; rounded once, after beta C has been added                           |
  template <real T, class C>
  static void gemm(device::Cuda::Lane& lane, Transpose ta, Transpose tb, std::int64_t m,
                   std::int64_t n, std::int64_t k, sum_t<T> alpha, const T* a, std::int64_t lda,
                   const T* b, std::int64_t ldb, sum_t<T> beta, C* c, std::int64_t ldc,
                   void* /*workspace*/) {
    if (m <= 0 || n <= 0) return;
    if (k <= 0) {
      if (beta != sum_t<T>(1)) {
        device::for_each_index(lane, m * n, ScaleMatrix<C>{c, n, ldc, beta});
      }
      return;
    }
    // A row-major matrix is its transpose in cuBLASLt's order, and C^T = op(B)^T op(A)^T.
    lane.blas().product({tb == Transpose::yes, ta == Transpose::yes, n, m, k, ldb, lda, ldc}, alpha,
                        b, a, beta, c);
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
