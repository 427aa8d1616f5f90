#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/units.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// C (m,n) = beta C: a product over nothing. What C holds does not count where beta is 0.
template <class T, class C>
void scale_rows(std::int64_t m, std::int64_t n, T beta, C* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      c[i * ldc + j] = C(beta == T(0) ? T(0) : beta * c[i * ldc + j]);
    }
  }
}

/// C (m,n) = alpha op(A) op(B) + beta C on the calling thread, with vectors but no library: for
/// double, and for float where there is no BLAS.
///
/// op(B) is packed in blocks of (depth, columns) as panels of two vectors, op(A) in blocks of
/// (rows, depth) as panels of four rows; a tile of 4 x 2 vectors of C stays in registers over depth.
/// Each element is summed over k ascending, in blocks of `depth`, whatever m and n are.
struct PortableGemm {
  static constexpr std::int64_t depth = 256;
  static constexpr std::int64_t columns = 512;
  static constexpr std::int64_t rows = 64;

  /// What run() takes from its scratch.
  template <class T>
  static Bytes scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k) {
    return Scratch::bytes<T>(a_elements(m, k)) + Scratch::bytes<T>(b_elements<T>(n, k));
  }

  template <class V, class T>
  void run(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
           const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
           std::int64_t ldc, Scratch scratch) const {
    constexpr std::int64_t panel = 2 * V::width;
    static_assert(V::width * static_cast<std::int64_t>(sizeof(T)) <= max_bytes);
    T* const block_a = scratch.take<T>(a_elements(m, k));
    T* const block_b = scratch.take<T>(b_elements<T>(n, k));
    if (k == 0 || alpha == T(0)) return scale_rows(m, n, beta, c, ldc);
    for (std::int64_t k0 = 0; k0 < k; k0 += depth) {
      const std::int64_t kb = (std::min)(depth, k - k0);
      const T block_beta = k0 == 0 ? beta : T(1);
      for (std::int64_t n0 = 0; n0 < n; n0 += columns) {
        const std::int64_t nb = (std::min)(columns, n - n0);
        pack(block_b, panel, kb, nb, tb == Transpose::no ? b + k0 * ldb + n0 : b + n0 * ldb + k0,
             tb == Transpose::no ? ldb : 1, tb == Transpose::no ? 1 : ldb);
        for (std::int64_t m0 = 0; m0 < m; m0 += rows) {
          const std::int64_t mb = (std::min)(rows, m - m0);
          pack(block_a, 4, kb, mb, ta == Transpose::no ? a + m0 * lda + k0 : a + k0 * lda + m0,
               ta == Transpose::no ? 1 : lda, ta == Transpose::no ? lda : 1);
          for (std::int64_t j = 0; j < nb; j += panel) {
            for (std::int64_t i = 0; i < mb; i += 4) {
              tile<V>(kb, alpha, block_a + i * kb, block_b + j * kb, block_beta,
                      c + (m0 + i) * ldc + n0 + j, ldc, std::min<std::int64_t>(4, mb - i), nb - j);
            }
          }
        }
      }
    }
  }

private:
  static constexpr std::int64_t max_bytes = 64;  // of a vector

  static std::int64_t whole(std::int64_t extent, std::int64_t panel) {
    return (extent + panel - 1) / panel * panel;
  }
  static std::int64_t a_elements(std::int64_t m, std::int64_t k) {
    return (std::min)(rows, whole(m, 4)) * (std::min)(depth, k);
  }
  template <class T>
  static std::int64_t b_elements(std::int64_t n, std::int64_t k) {
    constexpr auto panel = static_cast<std::int64_t>(2 * max_bytes / sizeof(T));
    return (std::min)(columns, whole(n, panel)) * (std::min)(depth, k);
  }

  // to[panel][k][width] = from (k, n) with the strides given, padded with zeros to whole panels.
  template <class T>
  static void pack(T* to, std::int64_t width, std::int64_t k, std::int64_t n, const T* from,
                   std::int64_t stride_k, std::int64_t stride_n) {
    for (std::int64_t j = 0; j < n; j += width) {
      for (std::int64_t p = 0; p < k; ++p) {
        for (std::int64_t w = 0; w < width; ++w) {
          *to++ = j + w < n ? from[p * stride_k + (j + w) * stride_n] : T(0);
        }
      }
    }
  }

  template <class V, class T>
  static void tile(std::int64_t k, T alpha, const T* a, const T* b, T beta, T* c, std::int64_t ldc,
                   std::int64_t m, std::int64_t n) {
    const V zero(T(0));
    V c00 = zero, c01 = zero, c10 = zero, c11 = zero;
    V c20 = zero, c21 = zero, c30 = zero, c31 = zero;
    for (std::int64_t p = 0; p < k; ++p, a += 4, b += 2 * V::width) {
      const V b0 = V::load(b);
      const V b1 = V::load(b + V::width);
      c00 = fma(V(a[0]), b0, c00);
      c01 = fma(V(a[0]), b1, c01);
      c10 = fma(V(a[1]), b0, c10);
      c11 = fma(V(a[1]), b1, c11);
      c20 = fma(V(a[2]), b0, c20);
      c21 = fma(V(a[2]), b1, c21);
      c30 = fma(V(a[3]), b0, c30);
      c31 = fma(V(a[3]), b1, c31);
    }
    store(c00, c01, alpha, beta, c, n);
    if (m > 1) store(c10, c11, alpha, beta, c + ldc, n);
    if (m > 2) store(c20, c21, alpha, beta, c + 2 * ldc, n);
    if (m > 3) store(c30, c31, alpha, beta, c + 3 * ldc, n);
  }

  template <class V, class T>
  static void store(const V& left, const V& right, T alpha, T beta, T* c, std::int64_t n) {
    store(left, alpha, beta, c, n);
    if (n > V::width) store(right, alpha, beta, c + V::width, n - V::width);
  }

  template <class V, class T>
  static void store(const V& value, T alpha, T beta, T* c, std::int64_t n) {
    V result = value * V(alpha);
    if (beta != T(0)) result = fma(V(beta), V::load(c, n), result);
    result.store(c, n);
  }
};

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
