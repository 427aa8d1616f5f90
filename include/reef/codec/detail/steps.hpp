#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <reef/codec/detail/blocks.hpp>
#include <reef/core/config.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

/// How many of up to 255 thresholds a number of [-1, 1] is above; of NaN, 0.
///
/// A number's key ascends as the numbers do. Keys that agree but for their low `shift` bits are a bin, with at most one
/// threshold in it: what is added to a key makes the bits above the low ones the index, the carry being the comparison.
class Steps {
public:
  /// Of thresholds that ascend.
  explicit Steps(std::span<const float> thresholds) {
    constexpr std::uint32_t low = (1U << shift) - 1;
    std::uint32_t below = 0;
    for (std::uint32_t bin = 0; bin < added_.size(); ++bin) {
      const bool has_one = below < thresholds.size() && key_of(thresholds[below]) >> shift == bin;
      const std::uint32_t not_above = has_one ? key_of(thresholds[below]) & low : low;
      added_[bin] = ((bin < infinity >> shift ? below : 0) << shift) + (low - not_above) - (bin << shift);
      if (has_one) ++below;
    }
  }

  static std::uint32_t key_of(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return bits ^ ((bits >> 31) != 0 ? 0xffffffffU : 0x80000000U);
  }
  [[nodiscard]] std::uint8_t operator()(float value) const { return of_key(key_of(value)); }

  /// Of as many keys, in a function for V's instruction set.
  template <class V>
  REEF_ALWAYS_INLINE void of_keys(const std::uint32_t* keys, std::int64_t count, std::uint8_t* to) const {
#if defined(__x86_64__) && defined(__GNUC__)
    if constexpr (V::width >= 8) {
      for (; count >= 8; count -= 8, keys += 8, to += 8) of_eight(keys, to);
    }
#endif
    for (; count > 0; --count) *to++ = of_key(*keys++);
  }

private:
  [[nodiscard]] std::uint8_t of_key(std::uint32_t key) const {
    return static_cast<std::uint8_t>((added_[key >> shift] + key) >> shift);
  }

#if defined(__x86_64__) && defined(__GNUC__)
  // Loads into vectors one by one, which takes half the time of what gathers them.
  REEF_TARGET_AVX2 void of_eight(const std::uint32_t* keys, std::uint8_t* to) const {
    const auto added = [&](int i) { return static_cast<int>(added_[keys[i] >> shift]); };
    __m128i low = _mm_cvtsi32_si128(added(0));
    __m128i high = _mm_cvtsi32_si128(added(4));
    low = _mm_insert_epi32(low, added(1), 1);
    high = _mm_insert_epi32(high, added(5), 1);
    low = _mm_insert_epi32(low, added(2), 2);
    high = _mm_insert_epi32(high, added(6), 2);
    low = _mm_insert_epi32(low, added(3), 3);
    high = _mm_insert_epi32(high, added(7), 3);
    const __m256i key = _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(keys)));
    const __m256i steps = _mm256_srli_epi32(_mm256_add_epi32(_mm256_set_m128i(high, low), key), shift);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(steps), _mm256_extracti128_si256(steps, 1));
    _mm_storel_epi64(static_cast<__m128i*>(static_cast<void*>(to)), _mm_packus_epi16(words, words));
  }
#endif

  static constexpr unsigned shift = 17;
  static constexpr std::uint32_t infinity = 0xff800000U;  ///< as a key

  std::array<std::uint32_t, std::size_t{1} << (32 - shift)> added_{};
};

/// Of each block its largest magnitude, and how many steps its numbers over that are above.
struct QuantizeBlocks {
  template <class V>
  void run(const Steps* steps, const float* values, std::int64_t n, std::int64_t block, float* largest_of_block,
           std::uint8_t* to) const {
    constexpr std::int64_t together = 1024;
    std::uint32_t keys[together + V::width];
    const std::int64_t group = std::max<std::int64_t>(1, together / block) * block;
    for (std::int64_t first = 0; first < n; first += group) {
      const std::int64_t last = (std::min)(n, first + group);
      float* const largest = largest_of_block + first / block;
      for (std::int64_t begin = first, b = 0; begin < last; begin += block, ++b) {
        largest[b] = largest_magnitude<V>(values + begin, (std::min)(block, last - begin));
      }
      std::int64_t b = 0;
      for (std::int64_t at = first; at < last; at += together) {
        const std::int64_t end = (std::min)(last, at + together);
        for (std::int64_t begin = at; begin < end;) {  // what is of one block
          const std::int64_t until = (std::min)(end, first + (b + 1) * block);
          const V scale(1 / largest[b]);
          for (std::int64_t i = begin; i < until; i += V::width) {
            const V scaled = V::load(values + i, until - i) * scale;
            smaller(V(1.0F), larger(V(-1.0F), scaled))
                .store_keys(keys + (i - at));  // a NaN passes both, as the second
          }
          begin = until;
          if (until == first + (b + 1) * block) ++b;
        }
        steps->of_keys<V>(keys, end - at, to + at);
      }
    }
  }
};

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
