#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/bfloat16.hpp>
#include <reef/core/units.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/detail/copy_rows.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// C = alpha op(A) op(B) + beta C of bf16 operands on a processor that does not multiply them: blocks
/// of A and B are widened, and `product` multiplies them in fp32. C is summed in fp32 and rounded once.
///
/// | bits | of a block of `depth` products after another, each as `product` sums it; from 16 rows |
/// |      | on a row's do not depend on m, if `product` has it so: no block has fewer             |
/// | cost | the fp32 product, and a pass over A for each 512 columns, over B for each 512 rows    |
class WidenedGemm {
public:
  /// The largest product of fp32 that one of (m, n, k) is made of.
  static std::int64_t max_rows(std::int64_t m) { return (std::min)(m, block + few - 1); }
  static std::int64_t max_columns(std::int64_t n) { return (std::min)(n, block); }
  static std::int64_t max_depth(std::int64_t k) { return (std::min)(k, depth); }

  /// What run() takes from its scratch, before what `product` takes from the rest.
  static Bytes scratch_bytes(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n,
                             std::int64_t k) {
    const Blocks blocks(ta, tb, m, n, k);
    return Scratch::bytes<float>(blocks.a.elements()) + Scratch::bytes<float>(blocks.b.elements()) +
           Scratch::bytes<float>(blocks.c.elements());
  }

  template <class C, class Product>
  static void run(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
                  float alpha, const Bfloat16* a, std::int64_t lda, const Bfloat16* b,
                  std::int64_t ldb, float beta, C* c, std::int64_t ldc, Scratch scratch,
                  const Product& product) {
    const Blocks blocks(ta, tb, m, n, k);
    float* const wide_a = scratch.take<float>(blocks.a.elements());
    float* const wide_b = scratch.take<float>(blocks.b.elements());
    float* const sums = scratch.take<float>(blocks.c.elements());
    const std::int64_t ld_a = blocks.a.ld, ld_b = blocks.b.ld, ld_c = blocks.c.ld;
    std::int64_t mb = 0;
    for (std::int64_t i = 0; i < m; i += mb) {
      mb = m - i < block + few ? m - i : block;  // a few rows at the end join those before
      for (std::int64_t j = 0; j < n; j += block) {
        const std::int64_t nb = (std::min)(block, n - j);
        C* const target = c + i * ldc + j;
        if (beta != 0.0F) copy(sums, ld_c, static_cast<const C*>(target), ldc, mb, nb);
        for (std::int64_t p = 0; p < k; p += depth) {
          const std::int64_t kb = (std::min)(depth, k - p);
          widen(wide_a, ld_a, a, lda, ta, i, p, mb, kb);
          widen(wide_b, ld_b, b, ldb, tb, p, j, kb, nb);
          product(ta, tb, mb, nb, kb, alpha, static_cast<const float*>(wide_a), ld_a,
                  static_cast<const float*>(wide_b), ld_b, p == 0 ? beta : 1.0F, sums, ld_c,
                  scratch);
        }
        copy(target, ldc, static_cast<const float*>(sums), ld_c, mb, nb);
      }
    }
  }

private:
  static constexpr std::int64_t block = 512;
  static constexpr std::int64_t depth = 512;
  static constexpr std::int64_t few = 16;

  // A block in memory: as many rows of `ld` elements as it has at most.
  struct Block {
    Block(std::int64_t max_rows, std::int64_t max_columns)
        : rows(max_rows), ld((max_columns + 15) / 16 * 16) {
      if (ld % 128 == 0) ld += 16;  // rows at a power of two would meet in the cache
    }
    std::int64_t rows, ld;
    [[nodiscard]] std::int64_t elements() const { return rows * ld; }
  };

  // Of op(A), op(B) as they lie, and of C. Where A lies as it is, no leading dimension depends on m.
  struct Blocks {
    Blocks(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k)
        : a(of(ta, max_rows(m), max_depth(k))),
          b(of(tb, max_depth(k), max_columns(n))),
          c(max_rows(m), max_columns(n)) {}
    Block a, b, c;

    static Block of(Transpose transpose, std::int64_t rows, std::int64_t columns) {
      return transpose == Transpose::no ? Block(rows, columns) : Block(columns, rows);
    }
  };

  template <class To, class From>
  static void copy(To* to, std::int64_t to_ld, const From* from, std::int64_t from_ld,
                   std::int64_t rows, std::int64_t columns) {
    device::run_vectors<Bfloat16>(CopyRows{}, to, to_ld, from, from_ld, rows, columns);
  }

  // The (rows, columns) of op(from) at (row, column), as they lie there.
  static void widen(float* to, std::int64_t ld, const Bfloat16* from, std::int64_t from_ld,
                    Transpose transpose, std::int64_t row, std::int64_t column, std::int64_t rows,
                    std::int64_t columns) {
    if (transpose == Transpose::no) {
      copy(to, ld, from + row * from_ld + column, from_ld, rows, columns);
    } else {
      copy(to, ld, from + column * from_ld + row, from_ld, columns, rows);
    }
  }
};

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
