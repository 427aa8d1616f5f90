#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include <reef/device/detail/vector_portable.hpp>

#define REEF_TARGET_AVX2 __attribute__((target("avx2,fma")))

namespace reef {
inline namespace v0 {
namespace device {

/// 8 floats: AVX2 and FMA.
struct Avx2 {};

// The lanes lie in an array, not in a compiler's vector: a template that knows no instruction set
// can then pass vectors around. Once everything is inlined into a function of the right target,
// the arrays are registers.
template <>
struct Vector<float, Avx2> {
  using element_type = float;
  static constexpr std::int64_t width = 8;

  // Not aligned further: unoptimised code of gcc does not align what it returns in memory.
  float lane[width];

  Vector() = default;
  REEF_TARGET_AVX2 Vector(float value) {  // NOLINT(google-explicit-constructor)
    _mm256_storeu_ps(lane, _mm256_set1_ps(value));
  }

  REEF_TARGET_AVX2 static Vector load(const float* from) { return of(_mm256_loadu_ps(from)); }
  REEF_TARGET_AVX2 static Vector load(const float* from, std::int64_t count) {
    if (count >= width) return load(from);
    return of(_mm256_maskload_ps(from, first(count)));
  }
  REEF_TARGET_AVX2 static Vector load(const float* from, std::int64_t count, const Vector& other) {
    if (count >= width) return load(from);
    const __m256i mask = first(count);
    return of(
        _mm256_blendv_ps(other.raw(), _mm256_maskload_ps(from, mask), _mm256_castsi256_ps(mask)));
  }
  REEF_TARGET_AVX2 friend inline Vector keep(const Vector& a, std::int64_t count) {
    return of(_mm256_and_ps(a.raw(), _mm256_castsi256_ps(first(count))));
  }
  REEF_TARGET_AVX2 void store(float* to) const { _mm256_storeu_ps(to, raw()); }
  REEF_TARGET_AVX2 void store(float* to, std::int64_t count) const {
    if (count >= width) return store(to);
    _mm256_maskstore_ps(to, first(count), raw());
  }

  REEF_TARGET_AVX2 static Vector load(const Bfloat16* from) {
    const __m128i half =
        _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(from)));
    return of(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16)));
  }
  REEF_TARGET_AVX2 static Vector load(const Bfloat16* from, std::int64_t count) {
    if (count >= width) return load(from);
    Bfloat16 part[width]{};
    for (std::int64_t i = 0; i < count; ++i) part[i] = from[i];
    return load(part);
  }
  REEF_TARGET_AVX2 static Vector load(const Bfloat16* from, std::int64_t count,
                                      const Vector& other) {
    if (count >= width) return load(from);
    return of(
        _mm256_blendv_ps(other.raw(), load(from, count).raw(), _mm256_castsi256_ps(first(count))));
  }
  REEF_TARGET_AVX2 void store(Bfloat16* to) const {
    _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(to)), rounded());
  }
  REEF_TARGET_AVX2 void store(Bfloat16* to, std::int64_t count) const {
    if (count >= width) return store(to);
    Bfloat16 part[width];
    store(part);
    for (std::int64_t i = 0; i < count; ++i) to[i] = part[i];
  }
  REEF_TARGET_AVX2 static Vector load(const std::int8_t* from) {
    const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(static_cast<const void*>(from)));
    return of(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
  }
  REEF_TARGET_AVX2 static Vector look_up(const std::uint8_t* from, const float* table) {
    const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(static_cast<const void*>(from)));
    return of(_mm256_i32gather_ps(table, _mm256_cvtepu8_epi32(bytes), 4));
  }
  REEF_TARGET_AVX2 static Vector load_halves(const std::uint8_t* from, std::int64_t count, const float* table) {
    std::int32_t bytes = 0;
    if (count >= width) {
      __builtin_memcpy(&bytes, from, 4);
    } else {
      for (std::int64_t i = 0; i < (count + 1) / 2; ++i) bytes |= from[i] << (8 * i);
    }
    const __m256i wide = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(bytes));
    const __m256i at = _mm256_or_si256(_mm256_srli_epi64(wide, 4), _mm256_slli_epi64(wide, 32));  // its low four bits
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), at);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), at);
    return of(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(at, 28))));
  }
  REEF_TARGET_AVX2 static Vector load_eighths(const std::uint32_t* from, int place, const float* table) {
    const __m256i words = _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(from)));
    const __m256i at = _mm256_srlv_epi32(words, _mm256_set1_epi32(4 * place));  // its low four bits
    const __m256i top = _mm256_sllv_epi32(words, _mm256_set1_epi32(28 - 4 * place));
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), at);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), at);
    return of(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(top)));
  }
  REEF_TARGET_AVX2 void store_halves(std::uint8_t* to, std::int64_t count, const float* thresholds) const {
    // A search: `steps` is known but for its last four bits, then three, ...
    const __m256 low = _mm256_loadu_ps(thresholds);
    const __m256 high = _mm256_loadu_ps(thresholds + 8);
    const __m256i upper = above(_mm256_set1_ps(thresholds[7]));
    __m256i steps = _mm256_and_si256(upper, _mm256_set1_epi32(8));
    steps = finer<4>(steps, upper, low, high);
    steps = finer<2>(steps, upper, low, high);
    steps = finer<1>(steps, upper, low, high);
    const __m256i both = _mm256_or_si256(_mm256_slli_epi64(steps, 4), _mm256_srli_epi64(steps, 32));  // low bytes
    const __m256i order = _mm256_setr_epi8(0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                           -1, -1, 0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i bytes = _mm256_shuffle_epi8(both, order);
    const int four = _mm_cvtsi128_si32(_mm_or_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
    __builtin_memcpy(to, &four, count >= width ? 4 : static_cast<std::size_t>((count + 1) / 2));
  }
  REEF_TARGET_AVX2 void store_bytes(std::uint8_t* to, std::int64_t count) const {
    const __m256i all = _mm256_cvttps_epi32(raw());
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    const __m128i bytes = _mm_packus_epi16(words, words);
    if (count >= width) return _mm_storel_epi64(static_cast<__m128i*>(static_cast<void*>(to)), bytes);
    std::uint8_t part[2 * width];
    _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(part)), bytes);
    for (std::int64_t i = 0; i < count; ++i) to[i] = part[i];
  }
  REEF_TARGET_AVX2 void store_keys(std::uint32_t* to) const {
    const __m256i bits = _mm256_castps_si256(raw());
    const __m256i flips = _mm256_or_si256(_mm256_srai_epi32(bits, 31), _mm256_set1_epi32(INT32_MIN));
    _mm256_storeu_si256(static_cast<__m256i*>(static_cast<void*>(to)), _mm256_xor_si256(bits, flips));
  }
  REEF_TARGET_AVX2 friend inline std::uint32_t magnitudes_above(const Vector& a, std::int32_t bits) {
    const __m256i magnitudes = _mm256_and_si256(_mm256_castps_si256(a.raw()), _mm256_set1_epi32(INT32_MAX));
    const __m256i above = _mm256_cmpgt_epi32(magnitudes, _mm256_set1_epi32(bits));
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(above)));
  }
  REEF_TARGET_AVX2 friend inline Vector operator+(const Vector& a, const Vector& b) {
    return of(_mm256_add_ps(a.raw(), b.raw()));
  }
  REEF_TARGET_AVX2 friend inline Vector operator-(const Vector& a, const Vector& b) {
    return of(_mm256_sub_ps(a.raw(), b.raw()));
  }
  REEF_TARGET_AVX2 friend inline Vector operator*(const Vector& a, const Vector& b) {
    __m256 product = _mm256_mul_ps(a.raw(), b.raw());
    __asm__("" : "+x"(product));  // as in core/product.hpp
    return of(product);
  }
  REEF_TARGET_AVX2 friend inline Vector operator/(const Vector& a, const Vector& b) {
    return of(_mm256_div_ps(a.raw(), b.raw()));
  }
  REEF_TARGET_AVX2 friend inline Vector operator-(const Vector& a) {
    return of(_mm256_xor_ps(a.raw(), _mm256_set1_ps(-0.0F)));
  }
  REEF_TARGET_AVX2 friend inline Vector fma(const Vector& a, const Vector& b, const Vector& c) {
    return of(_mm256_fmadd_ps(a.raw(), b.raw(), c.raw()));
  }
  REEF_TARGET_AVX2 friend inline Vector larger(const Vector& a, const Vector& b) {
    return of(_mm256_max_ps(a.raw(), b.raw()));
  }
  REEF_TARGET_AVX2 friend inline Vector smaller(const Vector& a, const Vector& b) {
    return of(_mm256_min_ps(a.raw(), b.raw()));
  }
  REEF_TARGET_AVX2 friend inline Vector sqrt(const Vector& a) {
    return of(_mm256_sqrt_ps(a.raw()));
  }
  REEF_TARGET_AVX2 friend inline Vector select_less(const Vector& a, const Vector& b,
                                                    const Vector& yes, const Vector& no) {
    return of(_mm256_blendv_ps(no.raw(), yes.raw(), _mm256_cmp_ps(a.raw(), b.raw(), _CMP_LT_OQ)));
  }
  /// The nearest integers.
  REEF_TARGET_AVX2 friend inline Vector round_even(const Vector& a) {
    return of(_mm256_round_ps(a.raw(), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  /// a 2^n for integral n in [-252, 254], in two factors: 2^128 is no float.
  REEF_TARGET_AVX2 friend inline Vector scale(const Vector& a, const Vector& n) {
    const __m256i all = _mm256_cvtps_epi32(n.raw());
    const __m256i half = _mm256_srai_epi32(all, 1);
    return a * of(power(half)) * of(power(_mm256_sub_epi32(all, half)));
  }
  REEF_TARGET_AVX2 friend inline float sum(const Vector& a) {
    const __m128 four =
        _mm_add_ps(_mm256_castps256_ps128(a.raw()), _mm256_extractf128_ps(a.raw(), 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  REEF_TARGET_AVX2 friend inline float largest(const Vector& a) {
    const __m128 four =
        _mm_max_ps(_mm256_castps256_ps128(a.raw()), _mm256_extractf128_ps(a.raw(), 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

private:
  REEF_TARGET_AVX2 __m256 raw() const { return _mm256_loadu_ps(lane); }
  REEF_TARGET_AVX2 static Vector of(__m256 raw) {
    Vector result;
    _mm256_storeu_ps(result.lane, raw);
    return result;
  }
  // The upper halves, rounded to nearest even; a NaN stays one.
  [[nodiscard]] REEF_TARGET_AVX2 __m128i rounded() const {
    const __m256i bits = _mm256_castps_si256(raw());
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i to_nearest =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(raw(), raw(), _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(to_nearest, quiet, nan), 16);
    return _mm256_castsi256_si128(
        _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0b1000));
  }
  [[nodiscard]] REEF_TARGET_AVX2 __m256i above(__m256 other) const {
    return _mm256_castps_si256(_mm256_cmp_ps(raw(), other, _CMP_GT_OQ));
  }
  // One more bit of a search of 15 thresholds.
  template <int bit>
  [[nodiscard]] REEF_TARGET_AVX2 __m256i finer(__m256i steps, __m256i upper, __m256 low, __m256 high) const {
    const __m256i at = _mm256_add_epi32(steps, _mm256_set1_epi32(bit - 1));
    const __m256 middle = _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, at), _mm256_permutevar8x32_ps(high, at),
                                           _mm256_castsi256_ps(upper));
    return _mm256_or_si256(steps, _mm256_and_si256(above(middle), _mm256_set1_epi32(bit)));
  }
  REEF_TARGET_AVX2 static __m256 power(__m256i n) {  // 2^n
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }

  // A mask of the first `count` lanes; count is at least 0.
  REEF_TARGET_AVX2 static __m256i first(std::int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count < width ? count : width)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace device
}  // namespace v0
}  // namespace reef
