#pragma once

#include <cstdint>
#include <type_traits>

#include <reef/core/element.hpp>
#include <reef/core/product.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace device {

namespace detail {

inline constexpr std::int64_t square_lanes = 16;

// Returns the square of x in fp64, in which the square of a float is exact: a fused multiply-add then gives the same
// bits as a multiplication and an addition.
template <class T>
REEF_ALWAYS_INLINE double square_of(T x) {
  const auto value = static_cast<double>(x);
  if constexpr (sizeof(T) == 8) {
    return product(value, value);
  } else {
    return value * value;
  }
}

// Adds the squares of n numbers to 16 partial sums, in ascending order of j: lane[j % 16] += x[j]^2.
template <class T>
void add_squares(double* lane, const T* x, std::int64_t n) {
  std::int64_t j = 0;
  for (; j + square_lanes <= n; j += square_lanes) {
    for (std::int64_t i = 0; i < square_lanes; ++i) {
      lane[i] += square_of(x[j + i]);
    }
  }
  for (; j < n; ++j) {
    lane[j % square_lanes] += square_of(x[j]);
  }
}

// Returns the sum of the 16 partial sums: adds the upper half of the lanes to the lower half, until one number is left.
inline double fold_squares(double* lane) {
  for (std::int64_t half = square_lanes / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

#if defined(__x86_64__) && defined(__GNUC__)

REEF_TARGET_AVX512 inline void add_squares_avx512(double* lane, const float* x, std::int64_t n) {
  __m512d low = _mm512_loadu_pd(lane);
  __m512d high = _mm512_loadu_pd(lane + 8);
  std::int64_t j = 0;
  for (; j + square_lanes <= n; j += square_lanes) {
    const __m512d a = _mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(x + j));
    const __m512d b = _mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(x + j + 8));
    low = _mm512_fmadd_pd(a, a, low);
    high = _mm512_fmadd_pd(b, b, high);
  }
  _mm512_storeu_pd(lane, low);
  _mm512_storeu_pd(lane + 8, high);
  add_squares(lane, x + j, n - j);
}

// Sums the squares of each of `streams` adjacent arrays of n numbers, in 16 lanes each.
template <int streams>
REEF_TARGET_AVX2 void add_squares_avx2(double* lane, const float* x, std::int64_t n) {
  __m256d sum[streams][4];
  for (int s = 0; s < streams; ++s) {
    for (int i = 0; i < 4; ++i) sum[s][i] = _mm256_loadu_pd(lane + square_lanes * s + 4 * i);
  }
  std::int64_t j = 0;
  for (; j + square_lanes <= n; j += square_lanes) {
    for (int s = 0; s < streams; ++s) {
      for (int i = 0; i < 4; ++i) {
        const __m256d value = _mm256_cvtps_pd(_mm_loadu_ps(x + s * n + j + 4 * i));
        sum[s][i] = _mm256_fmadd_pd(value, value, sum[s][i]);
      }
    }
  }
  for (int s = 0; s < streams; ++s) {
    for (int i = 0; i < 4; ++i) _mm256_storeu_pd(lane + square_lanes * s + 4 * i, sum[s][i]);
    add_squares(lane + square_lanes * s, x + s * n + j, n - j);
  }
}

#endif

/// Returns the sum of x[j]^2 over [0, n) in fp64, n at most a few thousand: sixteen interleaved sums, which are
/// then added by halves. The bits are the same under every instruction set.
template <real T>
double sum_of_squares(const T* x, std::int64_t n) {
  double lane[square_lanes] = {};
#if defined(__x86_64__) && defined(__GNUC__)
  if constexpr (std::is_same_v<T, float>) {
    switch (instruction_set()) {
      case InstructionSet::avx512: add_squares_avx512(lane, x, n); break;
      case InstructionSet::avx2: add_squares_avx2<1>(lane, x, n); break;
      case InstructionSet::baseline: add_squares(lane, x, n); break;
    }
  } else {
    add_squares(lane, x, n);
  }
#else
  add_squares(lane, x, n);
#endif
  return fold_squares(lane);
}

/// Computes the sums of squares of x[0, n) and of x[n, 2 n), with the bits of two calls of sum_of_squares. AVX2
/// reads both arrays at once, since one stream of narrow loads does not use the full bandwidth of the memory.
template <real T>
void two_sums_of_squares(const T* x, std::int64_t n, double* sums) {
#if defined(__x86_64__) && defined(__GNUC__)
  if constexpr (std::is_same_v<T, float>) {
    if (instruction_set() == InstructionSet::avx2) {
      double lane[2 * square_lanes] = {};
      add_squares_avx2<2>(lane, x, n);
      sums[0] = fold_squares(lane);
      sums[1] = fold_squares(lane + square_lanes);
      return;
    }
  }
#endif
  sums[0] = sum_of_squares(x, n);
  sums[1] = sum_of_squares(x + n, n);
}

}  // namespace detail

/// Sets sums[i] to the sum of squares of x[i block], ..., x[min(n, (i + 1) block) - 1] in fp64, on the thread pool.
/// Call it on the thread of `lane` (a host queue); it blocks. `sums` holds ceil(n / block) numbers.
///
/// | order | inside a block, j ascending, x[j]^2 is added to sum j % 16; then sums i and i + 8 are added, and |
/// |       | so on. The same bits for any number of threads; for float under any instruction set              |
/// | NaN   | a block with a NaN or infinity has a sum that is not finite                                      |
///
/// \code
/// // given: device::Host::Lane& lane, const std::vector<float>& g
/// std::vector<double> sums(divide_up(g.size(), 4096));
/// lane.submit([&](device::Host::Lane& own) {
///   device::block_sums_of_squares(own, std::ssize(g), g.data(), sums.data());
/// });
/// lane.synchronize();
/// \endcode
template <real T>
void block_sums_of_squares(Host::Lane& lane, std::int64_t n, const T* x, double* sums,
                           std::int64_t block = 4096) {
  constexpr std::int64_t together = 8;  // blocks of one part
  for_each_block(
      lane, (n + block - 1) / block, together, [&](std::int64_t first, std::int64_t last) {
        std::int64_t i = first;
        for (; i + 2 <= last && (i + 2) * block <= n; i += 2) {
          detail::two_sums_of_squares(x + i * block, block, sums + i);
        }
        for (; i < last; ++i) {
          const std::int64_t begin = i * block;
          sums[i] = detail::sum_of_squares(x + begin, n - begin < block ? n - begin : block);
        }
      });
}

}  // namespace device
}  // namespace v0
}  // namespace reef
