#pragma once

// Included where oneDNN is there (REEF_HAS_DNNL).

#include <algorithm>
#include <cstdint>

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/host/detail/transpose.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

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

/// Products of fp32 matrices by dnnl_sgemm on the calling thread alone.
class DnnlSgemm {
public:
  /// C (m,n) = alpha op(A) op(B) + beta C. k > 0.
  static void run(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
                  float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                  float beta, float* c, std::int64_t ldc, Scratch scratch) {
    prepare_dnnl();
    if (ta == Transpose::yes && tb == Transpose::no && is_turned(n, k)) {
      return turned(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, scratch);
    }
    if (ta == Transpose::no && tb == Transpose::no) {
      return plain(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, scratch);
    }
    itself(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }

  /// The most that it takes from `scratch`, whatever the leading dimensions, and dnnl_sgemm beside it.
  static Bytes scratch_bytes(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n,
                             std::int64_t k) {
    Bytes bytes = heap_bytes(m, n, k);
    if (tb == Transpose::yes) return bytes;
    if (is_packed(n, k)) bytes += Scratch::bytes<float>((std::min)(k, block_depth) * packed_ld);
    if (ta == Transpose::yes && is_turned(n, k)) {
      bytes += Scratch::bytes<float>((std::min)(m, turned_rows) * turned_ld);
    }
    return bytes;
  }

  /// The most that dnnl_sgemm takes from the heap for itself during a call. It has no interface to be
  /// given that memory, so whoever has a budget leaves as much of it unused.
  ///
  ///     4 (n + min(m, 384)) min(max(k, 128), 384) bytes and some for what it packs, or 76 KiB if it does not;
  ///     64 k, where that is more and k > 8192
  ///
  /// Often it takes less: what it will do depends on the processor, this does not. Block sizes are those of
  /// oneDNN 2 and 3 on x86-64; tests/nn/ holds it against the allocator.
  static Bytes heap_bytes(std::int64_t m, std::int64_t n, std::int64_t k) {
    const auto up = [](std::int64_t extent) { return (extent + 63) / 64 * 64; };
    const std::int64_t depth = std::clamp<std::int64_t>(up(k), 128, 384);
    const std::int64_t columns = std::min<std::int64_t>(up(n + 48), 10048);
    const std::int64_t packed = (columns + std::min<std::int64_t>(up(m), 384)) * depth;
    const Bytes strip = k > 8192 ? Scratch::bytes<float>(16 * up(k)) : 0;
    return (std::max)({Bytes{76_KiB}, Scratch::bytes<float>(packed) + 20_KiB, strip + 20_KiB});
  }

private:
  static constexpr std::int64_t block_depth = 512;
  static constexpr std::int64_t packed_columns = 384;
  static constexpr std::int64_t packed_ld = packed_columns + 16;
  static constexpr std::int64_t turned_rows = 384;
  static constexpr std::int64_t turned_ld = block_depth + 16;  // at a power of two rows would meet

  static bool is_packed(std::int64_t n, std::int64_t k) { return k >= 64 && n >= 64; }
  static bool is_turned(std::int64_t n, std::int64_t k) { return k >= 256 && n >= 64; }

  static void itself(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
                     float alpha, const float* a, std::int64_t lda, const float* b,
                     std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
    const dnnl_status_t status =
        dnnl_sgemm(ta == Transpose::no ? 'N' : 'T', tb == Transpose::no ? 'N' : 'T', m, n, k, alpha,
                   a, lda, b, ldb, beta, c, ldc);
    if (status == dnnl_success) return;
    throw Error("reef::nn: dnnl_sgemm refused (", m, ", ", n, ", ", k, ") with status ", status,
                ".");
  }

  // C = alpha A B + beta C, however B lies. The choice does not depend on m, nor do the bits of a row.
  static void plain(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
                    std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                    std::int64_t ldc, Scratch scratch) {
    if (ldb % 512 == 0 && is_packed(n, k)) {
      return packed(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, scratch);
    }
    itself(Transpose::no, Transpose::no, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }

  // C = alpha A B + beta C, with B copied block by block to rows that do not meet in the cache. Where
  // they do, at a multiple of 2 KiB, oneDNN's kernels for few rows run at half their speed.
  static void packed(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
                     std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                     std::int64_t ldc, Scratch scratch) {
    float* const block = scratch.take<float>((std::min)(k, block_depth) * packed_ld);
    for (std::int64_t p = 0; p < k; p += block_depth) {
      const std::int64_t kb = (std::min)(block_depth, k - p);
      for (std::int64_t j = 0; j < n; j += packed_columns) {
        const std::int64_t nb = (std::min)(packed_columns, n - j);
        for (std::int64_t r = 0; r < kb; ++r) {
          std::copy_n(b + (p + r) * ldb + j, nb, block + r * packed_ld);
        }
        itself(Transpose::no, Transpose::no, m, nb, kb, alpha, a + p, lda, block, packed_ld,
               p == 0 ? beta : 1.0F, c + j, ldc);
      }
    }
  }

  // C = alpha A^T B + beta C, with A turned block by block: oneDNN is slow where both matrices lie
  // across k.
  static void turned(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
                     std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                     std::int64_t ldc, Scratch scratch) {
    float* const block = scratch.take<float>((std::min)(m, turned_rows) * turned_ld);
    for (std::int64_t p = 0; p < k; p += block_depth) {
      const std::int64_t kb = (std::min)(block_depth, k - p);
      for (std::int64_t i = 0; i < m; i += turned_rows) {
        const std::int64_t mb = (std::min)(turned_rows, m - i);
        transpose(block, turned_ld, a + p * lda + i, lda, kb, mb);
        plain(mb, n, kb, alpha, block, turned_ld, b + p * ldb, ldb, p == 0 ? beta : 1.0F,
              c + i * ldc, ldc, scratch);
      }
    }
  }
};

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
