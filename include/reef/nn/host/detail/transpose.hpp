#pragma once

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#include <xmmintrin.h>
#endif

#include <reef/core/config.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// to (4,4) = the transpose of from (4,4), with leading dimensions.
template <class T>
REEF_ALWAYS_INLINE void transpose_square(T* to, std::int64_t ldt, const T* from, std::int64_t ldf) {
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) to[j * ldt + i] = from[i * ldf + j];
  }
}

#if defined(__x86_64__) && defined(__GNUC__)

REEF_ALWAYS_INLINE void transpose_square(float* to, std::int64_t ldt, const float* from,
                                         std::int64_t ldf) {
  const __m128 a = _mm_loadu_ps(from);
  const __m128 b = _mm_loadu_ps(from + ldf);
  const __m128 c = _mm_loadu_ps(from + 2 * ldf);
  const __m128 d = _mm_loadu_ps(from + 3 * ldf);
  const __m128 ab_low = _mm_unpacklo_ps(a, b);
  const __m128 ab_high = _mm_unpackhi_ps(a, b);
  const __m128 cd_low = _mm_unpacklo_ps(c, d);
  const __m128 cd_high = _mm_unpackhi_ps(c, d);
  _mm_storeu_ps(to, _mm_movelh_ps(ab_low, cd_low));
  _mm_storeu_ps(to + ldt, _mm_movehl_ps(cd_low, ab_low));
  _mm_storeu_ps(to + 2 * ldt, _mm_movelh_ps(ab_high, cd_high));
  _mm_storeu_ps(to + 3 * ldt, _mm_movehl_ps(cd_high, ab_high));
}

#endif

/// to (n,m) = the transpose of from (m,n), with leading dimensions. A cache line of `from` is read
/// whole before the next.
template <class T>
void transpose(T* to, std::int64_t ldt, const T* from, std::int64_t ldf, std::int64_t m,
               std::int64_t n) {
  constexpr std::int64_t line = 16;
  const std::int64_t whole_m = m / 4 * 4;
  const std::int64_t whole_n = n / 4 * 4;
  for (std::int64_t j0 = 0; j0 < n; j0 += line) {
    const std::int64_t j1 = (std::min)(j0 + line, n);
    for (std::int64_t i = 0; i < whole_m; i += 4) {
      for (std::int64_t j = j0; j < (std::min)(j1, whole_n); j += 4) {
        transpose_square(to + j * ldt + i, ldt, from + i * ldf + j, ldf);
      }
      for (std::int64_t j = (std::max)(j0, whole_n); j < j1; ++j) {
        for (std::int64_t w = 0; w < 4; ++w) to[j * ldt + i + w] = from[(i + w) * ldf + j];
      }
    }
    for (std::int64_t i = whole_m; i < m; ++i) {
      for (std::int64_t j = j0; j < j1; ++j) to[j * ldt + i] = from[i * ldf + j];
    }
  }
}

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
