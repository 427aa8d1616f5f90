#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/detail/linear_gradients.hpp>
#include <reef/nn/host/gemm.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

// A function that adds `bias` to each row of a matrix (rows, columns) at `out`, whose rows are `ld` apart.
struct AddBias {
  template <class V, class S>
  void run(S* out, std::int64_t ld, const S* bias, std::int64_t rows, std::int64_t columns) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      S* const row = out + r * ld;
      for (std::int64_t i = 0; i < columns; i += V::width) {
        (V::load(row + i, columns - i) + V::load(bias + i, columns - i))
            .store(row + i, columns - i);
      }
    }
  }
};

// A function that writes the sum over the rows of a matrix (rows, columns) to `target`, or adds it, in blocks of 64
// rows.
struct ColumnSums {
  template <class V, class T, class S>
  void run(T* target, const S* from, std::int64_t ld, std::int64_t rows, std::int64_t columns,
           bool accumulate) const {
    const V zero(T(0));
    for (std::int64_t i = 0; i < columns; i += 4 * V::width) {
      const std::int64_t n = columns - i;
      constexpr std::int64_t w = V::width;
      V s0 = zero, s1 = zero, s2 = zero, s3 = zero;
      for (std::int64_t begin = 0; begin < rows; begin += 64) {
        const std::int64_t end = begin + 64 < rows ? begin + 64 : rows;
        V b0 = zero, b1 = zero, b2 = zero, b3 = zero;
        for (std::int64_t r = begin; r < end; ++r) {
          const S* const row = from + r * ld + i;
          b0 += V::load(row, n);
          if (n > w) b1 += V::load(row + w, n - w);
          if (n > 2 * w) b2 += V::load(row + 2 * w, n - 2 * w);
          if (n > 3 * w) b3 += V::load(row + 3 * w, n - 3 * w);
        }
        s0 += b0;
        s1 += b1;
        s2 += b2;
        s3 += b3;
      }
      store(s0, target + i, n, accumulate);
      if (n > w) store(s1, target + i + w, n - w, accumulate);
      if (n > 2 * w) store(s2, target + i + 2 * w, n - 2 * w, accumulate);
      if (n > 3 * w) store(s3, target + i + 3 * w, n - 3 * w, accumulate);
    }
  }

private:
  template <class V, class T>
  static void store(const V& value, T* target, std::int64_t n, bool accumulate) {
    (accumulate ? V::load(target, n) + value : value).store(target, n);
  }
};

}  // namespace detail

/// Sums over the rows of a matrix, 64 columns at a time: gradients of biases.
struct Columns {
  template <real T>
  static void sum(device::Host::Lane& lane, sum_t<T>* out, const T* in, std::int64_t rows, std::int64_t columns,
                  bool accumulate) {
    device::for_each_block(lane, columns, 64, [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(detail::ColumnSums{}, out + begin, in + begin, columns, rows, end - begin, accumulate);
    });
  }
};

/// The kernels of the affine map out = in w + bias and its gradients. A tile gets its bias while it is in the cache.
struct Linear : nn::detail::LinearGradients<device::Host, Gemm, Columns> {
  template <real T>
  static Bytes linear_forward_workspace(std::int64_t R, std::int64_t K, std::int64_t N,
                                        Transpose tw, int threads) {
    return Gemm::gemm_workspace<T>(Transpose::no, tw, R, N, K, threads);
  }

  /// Returns the bytes of scratch memory that the gradient of the input or that of the weight needs, whichever is
  /// larger.
  template <real T>
  static Bytes linear_backward_workspace(std::int64_t R, std::int64_t K, std::int64_t N,
                                         Transpose tw, int threads) {
    const bool as_is = tw == Transpose::no;
    return (std::max)(Gemm::gemm_workspace<T>(Transpose::no, nn::detail::other(tw), R, K, N, threads),
                      Gemm::gemm_workspace<T>(Transpose::yes, Transpose::no, as_is ? K : N,
                                              as_is ? N : K, R, threads));
  }

  template <real T>
  static void linear_forward(device::Host::Lane& lane, T* out, const T* in, const T* w,
                             const T* bias, std::int64_t R, std::int64_t K, std::int64_t N,
                             Transpose tw, void* workspace) {
    detail::gemm_tiles(lane, Transpose::no, tw, R, N, K, sum_t<T>(1), in, K, w,
                       tw == Transpose::no ? N : K, sum_t<T>(0), out, N, workspace,
                       [&](std::int64_t r0, std::int64_t r1, std::int64_t n0, std::int64_t n1) {
                         if (bias == nullptr) return;
                         device::run_vectors<T>(detail::AddBias{}, out + r0 * N + n0, N, bias + n0,
                                                r1 - r0, n1 - n0);
                       });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
