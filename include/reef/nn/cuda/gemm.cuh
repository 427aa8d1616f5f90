#pragma once

#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/nn/kernels.hpp>

namespace reef::inline v0::nn::cuda {

/// Scales a row-major matrix with a leading dimension.
template <class T>
struct ScaleMatrix {
  T* c;
  std::int64_t columns, ldc;
  T beta;

  __device__ void operator()(std::int64_t i) const {
    T& element = c[i / columns * ldc + i % columns];
    element = beta == T(0) ? T(0) : beta * element;
  }
};

/// The matrix product of Kernels<device::Cuda>.
struct GemmKernels {
  /// C(m,n) = alpha op(A) op(B) + beta C, row-major, by cuBLASLt in full fp32 or fp64.
  ///
  /// | order | fixed for a shape and a device; sums that are split over k fold in a step of their own |
  /// | beta  | with 0, C is not read                                                                  |
  template <real T>
  static void gemm(device::Cuda::Lane& lane, Transpose ta, Transpose tb, std::int64_t m,
                   std::int64_t n, std::int64_t k, T alpha, const T* a, std::int64_t lda,
                   const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
    if (m <= 0 || n <= 0) return;
    if (k <= 0) {
      if (beta != T(1)) device::for_each_index(lane, m * n, ScaleMatrix<T>{c, n, ldc, beta});
      return;
    }
    // A row-major matrix is its transpose in cuBLASLt's order, and C^T = op(B)^T op(A)^T.
    lane.blas().product({tb == Transpose::yes, ta == Transpose::yes, n, m, k, ldb, lda, ldc,
                         element_of<T> == Element::float64},
                        alpha, b, a, beta, c);
  }
};

}  // namespace reef::inline v0::nn::cuda
