#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#if defined(REEF_HAS_DNNL)
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#elif defined(REEF_HAS_CBLAS)
#include <cblas.h>
#include <dlfcn.h>
#endif

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/device/host.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/nn/host/detail/bf16_gemm.hpp>
#include <reef/nn/host/detail/portable_gemm.hpp>
#include <reef/nn/host/detail/transpose.hpp>
#include <reef/nn/kernels.hpp>

#if defined(REEF_HAS_DNNL)
#include <reef/nn/host/detail/dnnl_matmul.hpp>
#endif

namespace reef::inline v0::nn::host {

namespace detail {

#if defined(REEF_HAS_DNNL)

/// Readies the calling thread for dnnl_sgemm: no OpenMP threads beside the pool's own, and no
/// instruction set above the one in use. libgomp is there only through oneDNN, so it is looked up
/// rather than linked.
inline void prepare_dnnl() {
  static const bool lowered = [] {
    switch (device::instruction_set()) {
      case device::InstructionSet::avx512: return false;
      case device::InstructionSet::avx2:
        return dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2) == dnnl_success;
      case device::InstructionSet::baseline: break;
    }
    return dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41) == dnnl_success;
  }();
  static_cast<void>(lowered);
  thread_local const bool alone = [] {
    if (void* const set = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
      reinterpret_cast<void (*)(int)>(set)(1);
    }
    return true;
  }();
  static_cast<void>(alone);
}

#elif defined(REEF_HAS_CBLAS)

/// Keeps OpenBLAS, if that is the BLAS, from starting threads beside the pool's own.
inline void prepare_cblas() {
  static const bool alone = [] {
    if (void* const set = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) {
      reinterpret_cast<void (*)(int)>(set)(1);
    }
    return true;
  }();
  static_cast<void>(alone);
}

#endif

#if defined(REEF_HAS_DNNL)

/// dnnl_sgemm on the calling thread alone.
inline void gemm_dnnl(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
                      float alpha, const float* a, std::int64_t lda, const float* b,
                      std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  const dnnl_status_t status =
      dnnl_sgemm(ta == Transpose::no ? 'N' : 'T', tb == Transpose::no ? 'N' : 'T', m, n, k, alpha,
                 a, lda, b, ldb, beta, c, ldc);
  if (status == dnnl_success) return;
  throw Error("reef::nn: dnnl_sgemm refused (", m, ", ", n, ", ", k, ") with status ", status, ".");
}

/// C = alpha A B + beta C, with B copied block by block to rows that do not meet in the cache. Where
/// they do, at a multiple of 2 KiB, oneDNN's kernels for few rows run at half their speed.
inline void gemm_packed(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
                        std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                        std::int64_t ldc) {
  constexpr std::int64_t columns = 384;
  constexpr std::int64_t depth = 512;
  constexpr std::int64_t ld = columns + 16;
  thread_local std::vector<float> packed(static_cast<std::size_t>(depth * ld));
  for (std::int64_t p = 0; p < k; p += depth) {
    const std::int64_t kb = std::min(depth, k - p);
    for (std::int64_t j = 0; j < n; j += columns) {
      const std::int64_t nb = std::min(columns, n - j);
      for (std::int64_t r = 0; r < kb; ++r) {
        std::copy_n(b + (p + r) * ldb + j, nb, packed.data() + r * ld);
      }
      gemm_dnnl(Transpose::no, Transpose::no, m, nb, kb, alpha, a + p, lda, packed.data(), ld,
                p == 0 ? beta : 1.0F, c + j, ldc);
    }
  }
}

/// C = alpha A B + beta C, however B lies. The choice does not depend on m, nor do the bits of a row.
inline void gemm_plain(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
                       std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                       std::int64_t ldc) {
  if (ldb % 512 == 0 && k >= 64 && n >= 64) {
    return gemm_packed(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
  gemm_dnnl(Transpose::no, Transpose::no, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/// C = alpha A^T B + beta C, with A turned block by block: oneDNN is slow where both matrices lie
/// across k.
inline void gemm_turned(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
                        std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                        std::int64_t ldc) {
  constexpr std::int64_t rows = 384;
  constexpr std::int64_t depth = 512;
  constexpr std::int64_t ld = depth + 16;  // rows at a power of two would meet in the cache
  thread_local std::vector<float> turned(static_cast<std::size_t>(rows * ld));
  for (std::int64_t p = 0; p < k; p += depth) {
    const std::int64_t kb = std::min(depth, k - p);
    for (std::int64_t i = 0; i < m; i += rows) {
      const std::int64_t mb = std::min(rows, m - i);
      transpose(turned.data(), ld, a + p * lda + i, lda, kb, mb);
      gemm_plain(mb, n, kb, alpha, turned.data(), ld, b + p * ldb, ldb, p == 0 ? beta : 1.0F,
                 c + i * ldc, ldc);
    }
  }
}

#endif

/// C (m,n) = alpha op(A) op(B) + beta C on the calling thread alone.
///
/// With oneDNN and A as it is, a row of C has the same bits for every m >= 16.
template <real T>
void gemm_here(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
               const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
               std::int64_t ldc) {
  if (m == 0 || n == 0) return;
#if defined(REEF_HAS_DNNL)
  if constexpr (std::is_same_v<T, float>) {
    if (k == 0) return scale_rows(m, n, beta, c, ldc);
    prepare_dnnl();
    if (ta == Transpose::yes && tb == Transpose::no && k >= 256 && n >= 64) {
      return gemm_turned(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    }
    if (ta == Transpose::no && tb == Transpose::no) {
      return gemm_plain(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    }
    gemm_dnnl(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  } else
#elif defined(REEF_HAS_CBLAS)
  if constexpr (std::is_same_v<T, float>) {
    prepare_cblas();
    cblas_sgemm(CblasRowMajor, ta == Transpose::no ? CblasNoTrans : CblasTrans,
                tb == Transpose::no ? CblasNoTrans : CblasTrans, static_cast<int>(m),
                static_cast<int>(n), static_cast<int>(k), alpha, a, static_cast<int>(lda), b,
                static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
  } else
#endif
  {
    device::run_vectors<T>(PortableGemm{}, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
}

/// The same of bf16 operands, summed in fp32, to fp32 or bf16: by oneDNN where the processor multiplies
/// bf16, else widened.
template <class C>
void gemm_here(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
               float alpha, const Bfloat16* a, std::int64_t lda, const Bfloat16* b,
               std::int64_t ldb, float beta, C* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_rows(m, n, beta, c, ldc);
#if defined(REEF_HAS_DNNL) && DNNL_VERSION_MAJOR == 2
  if (alpha == 1.0F && multiplies_bf16()) {
    prepare_dnnl();
    const DnnlMatmul::Shape shape{ta,           tb, m, n, k, lda, ldb, ldc, beta, Element::bfloat16,
                                  element_of<C>};
    if (DnnlMatmul::run(shape, a, b, c)) return;
  }
#endif
  gemm_widened(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
               [](auto... arguments) { gemm_here<float>(arguments...); });
}

/// How (m, n) is cut into tiles: `across` strips of rows by `along` strips of columns.
struct GemmGrid {
  std::int64_t m, n;
  std::int64_t across, along;

  // Two tiles from some 50 us of work on, four from half a millisecond, then more; but none that is
  // small or narrow, since a tile packs its share of A and B once more; strips of rows where A is
  // to be turned. Depends on the shape alone.
  static GemmGrid of(Transpose ta, std::int64_t m, std::int64_t n, std::int64_t k) {
    const double flops =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    const auto wanted =
        static_cast<std::int64_t>(flops < 8e6   ? 1
                                  : flops < 1e8 ? 2
                                                : std::clamp(flops / 5e8, 4.0, 64.0));
    GemmGrid grid{m, n, 1, 1};
    while (2 * grid.tiles() <= wanted) {
      const std::int64_t rows = m / grid.across;
      const std::int64_t columns = n / grid.along;
      const std::int64_t least = grid.tiles() == 1 ? 4096 : 32768;  // elements of C in a tile
      if (rows * columns < 2 * least || std::max(rows, columns) < 64) break;
      const bool across = rows >= columns || rows >= 512 || (ta == Transpose::yes && rows >= 128);
      (across ? grid.across : grid.along) *= 2;
    }
    return grid;
  }

  [[nodiscard]] std::int64_t tiles() const { return across * along; }
  [[nodiscard]] std::int64_t row(std::int64_t strip) const { return cut(m, across, strip, 16); }
  [[nodiscard]] std::int64_t column(std::int64_t strip) const { return cut(n, along, strip, 16); }

private:
  // Whole units only; what is left over goes to the last strip, which so has at least a unit.
  static std::int64_t cut(std::int64_t size, std::int64_t strips, std::int64_t strip,
                          std::int64_t unit) {
    return strip == strips ? size : size / unit * strip / strips * unit;
  }
};

/// gemm on the pool; finished(row0, row1, column0, column1) follows each tile while it is hot.
template <real T, class C, class Finished>
void gemm_tiles(device::Host::Lane& lane, Transpose ta, Transpose tb, std::int64_t m,
                std::int64_t n, std::int64_t k, sum_t<T> alpha, const T* a, std::int64_t lda,
                const T* b, std::int64_t ldb, sum_t<T> beta, C* c, std::int64_t ldc,
                const Finished& finished) {
  if (m == 0 || n == 0) return;
  const GemmGrid grid = GemmGrid::of(ta, m, n, k);
  lane.parallel(grid.tiles(), [&](std::int64_t tile) {
    const std::int64_t row0 = grid.row(tile / grid.along);
    const std::int64_t row1 = grid.row(tile / grid.along + 1);
    const std::int64_t column0 = grid.column(tile % grid.along);
    const std::int64_t column1 = grid.column(tile % grid.along + 1);
    gemm_here(ta, tb, row1 - row0, column1 - column0, k, alpha,
              ta == Transpose::no ? a + row0 * lda : a + row0, lda,
              tb == Transpose::no ? b + column0 : b + column0 * ldb, ldb, beta,
              c + row0 * ldc + column0, ldc);
    finished(row0, row1, column0, column1);
  });
}

}  // namespace detail

/// Matrix products, tiled over the pool.
struct Gemm {
  template <real T, class C>
  static void gemm(device::Host::Lane& lane, Transpose ta, Transpose tb, std::int64_t m,
                   std::int64_t n, std::int64_t k, sum_t<T> alpha, const T* a, std::int64_t lda,
                   const T* b, std::int64_t ldb, sum_t<T> beta, C* c, std::int64_t ldc) {
    detail::gemm_tiles(lane, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, [](auto...) {});
  }
};

}  // namespace reef::inline v0::nn::host
