#pragma once

#include <cstdint>

#include <immintrin.h>

#include <reef/device/detail/vector_portable.hpp>

#define REEF_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

namespace reef {
inline namespace v0 {
namespace device {

/// 16 floats: AVX-512 F, BW, DQ, VL.
struct Avx512 {};

// The lanes lie in an array, not in a compiler's vector: a template that knows no instruction set
// can then pass vectors around. Once everything is inlined into a function of the right target,
// the arrays are registers.
template <>
struct Vector<float, Avx512> {
  using element_type = float;
  static constexpr std::int64_t width = 16;

  // Not aligned further: unoptimised code of gcc does not align what it returns in memory.
  float lane[width];

  Vector() = default;
  REEF_TARGET_AVX512 Vector(float value) {  // NOLINT(google-explicit-constructor)
    _mm512_storeu_ps(lane, _mm512_set1_ps(value));
  }

  REEF_TARGET_AVX512 static Vector load(const float* from) { return of(_mm512_loadu_ps(from)); }
  REEF_TARGET_AVX512 static Vector load(const float* from, std::int64_t count) {
    return of(_mm512_maskz_loadu_ps(first(count), from));
  }
  REEF_TARGET_AVX512 static Vector load(const float* from, std::int64_t count,
                                        const Vector& other) {
    return of(_mm512_mask_loadu_ps(other.raw(), first(count), from));
  }
  REEF_TARGET_AVX512 friend inline Vector keep(const Vector& a, std::int64_t count) {
    return of(_mm512_maskz_mov_ps(first(count), a.raw()));
  }
  REEF_TARGET_AVX512 void store(float* to) const { _mm512_storeu_ps(to, raw()); }
  REEF_TARGET_AVX512 void store(float* to, std::int64_t count) const {
    _mm512_mask_storeu_ps(to, first(count), raw());
  }

  REEF_TARGET_AVX512 static Vector load(const Bfloat16* from) { return load(from, width); }
  REEF_TARGET_AVX512 static Vector load(const Bfloat16* from, std::int64_t count) {
    return of(widened(_mm256_maskz_loadu_epi16(first(count), from)));
  }
  REEF_TARGET_AVX512 static Vector load(const Bfloat16* from, std::int64_t count,
                                        const Vector& other) {
    return of(_mm512_mask_blend_ps(first(count), other.raw(), load(from, count).raw()));
  }
  REEF_TARGET_AVX512 void store(Bfloat16* to) const { store(to, width); }
  REEF_TARGET_AVX512 void store(Bfloat16* to, std::int64_t count) const {
    _mm256_mask_storeu_epi16(to, first(count), rounded());
  }
  REEF_TARGET_AVX512 static Vector load(const std::int8_t* from) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(from)));
    return of(_mm512_maskz_cvtepi32_ps(all, _mm512_maskz_cvtepi8_epi32(all, bytes)));
  }
  REEF_TARGET_AVX512 static Vector look_up(const std::uint8_t* from, const float* table) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(from)));
    return of(_mm512_mask_i32gather_ps(_mm512_set1_ps(0), all, _mm512_maskz_cvtepu8_epi32(all, bytes), table, 4));
  }
  REEF_TARGET_AVX512 static Vector load_halves(const std::uint8_t* from, std::int64_t count, const float* table) {
    const __m128i bytes = count >= width ? _mm_loadl_epi64(static_cast<const __m128i*>(static_cast<const void*>(from)))
                                         : _mm_maskz_loadu_epi8(first((count + 1) / 2), from);
    const __m512i wide = _mm512_maskz_cvtepu8_epi64(0xFF, bytes);
    const __m512i at = _mm512_or_si512(_mm512_maskz_srli_epi64(0xFF, wide, 4), _mm512_maskz_slli_epi64(0xFF, wide, 32));
    return of(_mm512_maskz_permutexvar_ps(all, at, _mm512_loadu_ps(table)));  // by the low four bits
  }
  REEF_TARGET_AVX512 static Vector load_eighths(const std::uint32_t* from, int place, const float* table) {
    const __m512i at = _mm512_maskz_srlv_epi32(all, _mm512_loadu_si512(from), _mm512_set1_epi32(4 * place));
    return of(_mm512_maskz_permutexvar_ps(all, at, _mm512_loadu_ps(table)));  // by the low four bits
  }
  REEF_TARGET_AVX512 void store_halves(std::uint8_t* to, std::int64_t count, const float* thresholds) const {
    // A search: `steps` is known but for its last four bits, then three, ...
    const __m512 table = _mm512_loadu_ps(thresholds);
    __m512i steps = _mm512_maskz_mov_epi32(above(_mm512_set1_ps(thresholds[7])), _mm512_set1_epi32(8));
    steps = finer<4>(steps, table);
    steps = finer<2>(steps, table);
    steps = finer<1>(steps, table);
    // The low byte of each 64-bit lane has both codes.
    const __m512i both =
        _mm512_or_si512(_mm512_maskz_slli_epi64(0xFF, steps, 4), _mm512_maskz_srli_epi64(0xFF, steps, 32));
    const __m128i bytes = _mm512_maskz_cvtepi64_epi8(0xFF, both);
    if (count >= width) return _mm_storel_epi64(static_cast<__m128i*>(static_cast<void*>(to)), bytes);
    _mm_mask_storeu_epi8(to, first((count + 1) / 2), bytes);
  }
  REEF_TARGET_AVX512 void store_bytes(std::uint8_t* to, std::int64_t count) const {
    const __m128i bytes = _mm512_maskz_cvtepi32_epi8(all, _mm512_maskz_cvttps_epi32(all, raw()));
    if (count >= width) return _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(to)), bytes);
    _mm_mask_storeu_epi8(to, first(count), bytes);
  }
  REEF_TARGET_AVX512 void store_keys(std::uint32_t* to) const {
    const __m512i bits = _mm512_castps_si512(raw());
    const __m512i flips = _mm512_or_si512(_mm512_maskz_srai_epi32(all, bits, 31), _mm512_set1_epi32(INT32_MIN));
    _mm512_storeu_si512(to, _mm512_xor_si512(bits, flips));
  }
  REEF_TARGET_AVX512 friend inline std::uint32_t magnitudes_above(const Vector& a, std::int32_t bits) {
    const __m512i magnitudes = _mm512_and_si512(_mm512_castps_si512(a.raw()), _mm512_set1_epi32(INT32_MAX));
    return _mm512_cmpgt_epi32_mask(magnitudes, _mm512_set1_epi32(bits));
  }
  REEF_TARGET_AVX512 friend inline Vector operator+(const Vector& a, const Vector& b) {
    return of(_mm512_add_ps(a.raw(), b.raw()));
  }
  REEF_TARGET_AVX512 friend inline Vector operator-(const Vector& a, const Vector& b) {
    return of(_mm512_sub_ps(a.raw(), b.raw()));
  }
  REEF_TARGET_AVX512 friend inline Vector operator*(const Vector& a, const Vector& b) {
    __m512 product = _mm512_mul_ps(a.raw(), b.raw());
    __asm__("" : "+v"(product));  // as in core/product.hpp
    return of(product);
  }
  REEF_TARGET_AVX512 friend inline Vector operator/(const Vector& a, const Vector& b) {
    return of(_mm512_div_ps(a.raw(), b.raw()));
  }
  REEF_TARGET_AVX512 friend inline Vector operator-(const Vector& a) {
    return of(_mm512_xor_ps(a.raw(), _mm512_set1_ps(-0.0F)));
  }
  REEF_TARGET_AVX512 friend inline Vector fma(const Vector& a, const Vector& b, const Vector& c) {
    return of(_mm512_fmadd_ps(a.raw(), b.raw(), c.raw()));
  }
  REEF_TARGET_AVX512 friend inline Vector larger(const Vector& a, const Vector& b) {
    return of(_mm512_maskz_max_ps(all, a.raw(), b.raw()));
  }
  REEF_TARGET_AVX512 friend inline Vector smaller(const Vector& a, const Vector& b) {
    return of(_mm512_maskz_min_ps(all, a.raw(), b.raw()));
  }
  REEF_TARGET_AVX512 friend inline Vector sqrt(const Vector& a) {
    return of(_mm512_maskz_sqrt_ps(all, a.raw()));
  }
  REEF_TARGET_AVX512 friend inline Vector select_less(const Vector& a, const Vector& b,
                                                      const Vector& yes, const Vector& no) {
    return of(_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.raw(), b.raw(), _CMP_LT_OQ), no.raw(),
                                   yes.raw()));
  }
  /// The nearest integers.
  REEF_TARGET_AVX512 friend inline Vector round_even(const Vector& a) {
    return of(
        _mm512_maskz_roundscale_ps(all, a.raw(), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  /// a 2^n for integral n.
  REEF_TARGET_AVX512 friend inline Vector scale(const Vector& a, const Vector& n) {
    return of(_mm512_maskz_scalef_ps(all, a.raw(), n.raw()));
  }
  REEF_TARGET_AVX512 friend inline float sum(const Vector& a) {
    const __m256 half = _mm256_add_ps(_mm256_loadu_ps(a.lane), _mm256_loadu_ps(a.lane + 8));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  REEF_TARGET_AVX512 friend inline float largest(const Vector& a) {
    const __m256 half = _mm256_max_ps(_mm256_loadu_ps(a.lane), _mm256_loadu_ps(a.lane + 8));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

private:
  // The masked forms name what the lanes would otherwise keep: the plain ones make g++ 12 warn of
  // an uninitialised value in its own header. The code is the same.
  static constexpr __mmask16 all = 0xFFFF;

  REEF_TARGET_AVX512 __m512 raw() const { return _mm512_loadu_ps(lane); }
  REEF_TARGET_AVX512 static Vector of(__m512 raw) {
    Vector result;
    _mm512_storeu_ps(result.lane, raw);
    return result;
  }
  REEF_TARGET_AVX512 static __m512 widened(__m256i half) {
    return _mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(all, _mm512_maskz_cvtepu16_epi32(all, half), 16));
  }
  // The upper halves, rounded to nearest even; a NaN stays one.
  [[nodiscard]] REEF_TARGET_AVX512 __m256i rounded() const {
    const __m512i bits = _mm512_castps_si512(raw());
    const __m512i odd =
        _mm512_and_si512(_mm512_maskz_srli_epi32(all, bits, 16), _mm512_set1_epi32(1));
    const __m512i to_nearest =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(raw(), raw(), _CMP_UNORD_Q);
    const __m512i upper =
        _mm512_maskz_srli_epi32(all, _mm512_mask_blend_epi32(nan, to_nearest, quiet), 16);
    return _mm512_maskz_cvtepi32_epi16(all, upper);
  }
  [[nodiscard]] REEF_TARGET_AVX512 __mmask16 above(__m512 other) const {
    return _mm512_cmp_ps_mask(raw(), other, _CMP_GT_OQ);
  }
  // One more bit of a search of 15 thresholds.
  template <int bit>
  [[nodiscard]] REEF_TARGET_AVX512 __m512i finer(__m512i steps, __m512 table) const {
    const __m512i at = _mm512_add_epi32(steps, _mm512_set1_epi32(bit - 1));
    const __m512 middle = _mm512_maskz_permutexvar_ps(all, at, table);
    return _mm512_mask_add_epi32(steps, above(middle), steps, _mm512_set1_epi32(bit));
  }
  // A mask of the first `count` lanes; count is at least 0.
  REEF_TARGET_AVX512 static __mmask16 first(std::int64_t count) {
    return count >= width ? __mmask16{0xFFFF} : static_cast<__mmask16>((1U << count) - 1U);
  }
};

}  // namespace device
}  // namespace v0
}  // namespace reef
