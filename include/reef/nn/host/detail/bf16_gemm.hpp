#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <reef/core/bfloat16.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/detail/copy_rows.hpp>
#include <reef/nn/kernels.hpp>

namespace reef::inline v0::nn::host::detail {

/// C = alpha op(A) op(B) + beta C of bf16 operands on a processor that does not multiply them: blocks
/// of A and B are widened, and `product` multiplies them in fp32. C is summed in fp32 and rounded once.
///
/// | bits | of a block of `depth` products after another, each as `product` sums it; from 16 rows |
/// |      | on a row's do not depend on m, if `product` has it so: no block has fewer             |
/// | cost | the fp32 product, and a pass over A for each 512 columns, over B for each 512 rows |
template <class C, class Product>
void gemm_widened(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
                  float alpha, const Bfloat16* a, std::int64_t lda, const Bfloat16* b,
                  std::int64_t ldb, float beta, C* c, std::int64_t ldc, const Product& product) {
  constexpr std::int64_t block = 512;
  constexpr std::int64_t depth = 512;
  constexpr std::int64_t few = 16;
  constexpr std::int64_t ld = block + few;  // rows at a power of two would meet in the cache
  thread_local std::vector<float> wide_a(static_cast<std::size_t>(ld * ld));
  thread_local std::vector<float> wide_b(static_cast<std::size_t>(ld * ld));
  thread_local std::vector<float> sums(static_cast<std::size_t>(ld * ld));
  const auto widen = [](float* to, const Bfloat16* from, std::int64_t from_ld, Transpose transpose,
                        std::int64_t row, std::int64_t column, std::int64_t rows,
                        std::int64_t columns) {
    const bool as_is = transpose == Transpose::no;
    device::run_vectors<Bfloat16>(CopyRows{}, to, ld,
                                  from + (as_is ? row * from_ld + column : column * from_ld + row),
                                  from_ld, as_is ? rows : columns, as_is ? columns : rows);
  };
  std::int64_t mb = 0;
  for (std::int64_t i = 0; i < m; i += mb) {
    mb = m - i < block + few ? m - i : block;  // a few rows at the end join those before
    for (std::int64_t j = 0; j < n; j += block) {
      const std::int64_t nb = std::min(block, n - j);
      C* const target = c + i * ldc + j;
      if (beta != 0.0F) {
        device::run_vectors<Bfloat16>(CopyRows{}, sums.data(), ld, static_cast<const C*>(target),
                                      ldc, mb, nb);
      }
      for (std::int64_t p = 0; p < k; p += depth) {
        const std::int64_t kb = std::min(depth, k - p);
        widen(wide_a.data(), a, lda, ta, i, p, mb, kb);
        widen(wide_b.data(), b, ldb, tb, p, j, kb, nb);
        product(ta, tb, mb, nb, kb, alpha, static_cast<const float*>(wide_a.data()), ld,
                static_cast<const float*>(wide_b.data()), ld, p == 0 ? beta : 1.0F, sums.data(),
                ld);
      }
      device::run_vectors<Bfloat16>(CopyRows{}, target, ldc, static_cast<const float*>(sums.data()),
                                    ld, mb, nb);
    }
  }
}

}  // namespace reef::inline v0::nn::host::detail
