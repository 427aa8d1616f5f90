#pragma once

#include <cstdint>
#include <type_traits>

#if !defined(REEF_HAS_DNNL) && defined(REEF_HAS_CBLAS)
#include <cblas.h>
#include <dlfcn.h>
#endif

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/detail/bf16_gemm.hpp>
#include <reef/nn/host/detail/portable_gemm.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/kernels.hpp>

#if defined(REEF_HAS_DNNL)
#include <reef/nn/host/detail/dnnl_matmul.hpp>
#include <reef/nn/host/detail/dnnl_sgemm.hpp>
#endif

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

#if !defined(REEF_HAS_DNNL) && defined(REEF_HAS_CBLAS)

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

/// The scratch of gemm_here for a product of (m, n, k) or a smaller one, whatever its leading
/// dimensions. It follows from these alone, not from the processor.
template <real T>
Bytes gemm_here_bytes(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k) {
  if (m == 0 || n == 0 || k == 0) return 0;
  if constexpr (!std::is_same_v<T, sum_t<T>>) {
    return WidenedGemm::scratch_bytes(ta, tb, m, n, k) +
           gemm_here_bytes<sum_t<T>>(ta, tb, WidenedGemm::max_rows(m),
                                     WidenedGemm::max_columns(n), WidenedGemm::max_depth(k));
  } else {
#if defined(REEF_HAS_DNNL)
    if constexpr (std::is_same_v<T, float>) return DnnlSgemm::scratch_bytes(ta, tb, m, n, k);
#elif defined(REEF_HAS_CBLAS)
    if constexpr (std::is_same_v<T, float>) return 0;
#endif
    return PortableGemm::scratch_bytes<T>(m, n, k);
  }
}

/// C (m,n) = alpha op(A) op(B) + beta C on the calling thread alone.
///
/// With oneDNN and A as it is, a row of C has the same bits for every m >= 16.
template <real T>
void gemm_here(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
               const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
               std::int64_t ldc, Scratch scratch) {
  if (m == 0 || n == 0) return;
#if defined(REEF_HAS_DNNL)
  if constexpr (std::is_same_v<T, float>) {
    if (k == 0) return scale_rows(m, n, beta, c, ldc);
    DnnlSgemm::run(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, scratch);
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
    device::run_vectors<T>(PortableGemm{}, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                           scratch);
  }
}

/// The same of bf16 operands, summed in fp32, to fp32 or bf16: by oneDNN where the processor multiplies
/// bf16, else widened.
template <class C>
void gemm_here(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
               float alpha, const Bfloat16* a, std::int64_t lda, const Bfloat16* b,
               std::int64_t ldb, float beta, C* c, std::int64_t ldc, Scratch scratch) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_rows(m, n, beta, c, ldc);
#if defined(REEF_HAS_DNNL) && DNNL_VERSION_MAJOR == 2
  if (alpha == 1.0F && multiplies_bf16()) {
    prepare_dnnl();
    const DnnlMatmul::Shape shape{ta,           tb, m, n, k, lda, ldb, ldc, beta, Element::bfloat16,
                                  element_of<C>};
    const Bytes room = gemm_here_bytes<Bfloat16>(ta, tb, m, n, k);
    if (DnnlMatmul::run(shape, a, b, c, scratch, room)) return;
  }
#endif
  WidenedGemm::run(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, scratch,
                   [](auto... arguments) { gemm_here<float>(arguments...); });
}

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
