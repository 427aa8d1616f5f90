#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <reef/codec/detail/dynamic_code.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/rows/panel_product.hpp>
#include <reef/nn/host/rows/panels.hpp>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define REEF_TARGET_VBMI \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2,fma")))
#endif

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

#if defined(__x86_64__) && defined(__GNUC__)

/// The non-negative half of the 8-bit dynamic code's numbers (dynamic_values), 128 floats, as four lookup tables: table
/// p has byte p of each float, the lowest first.
struct DynamicBytes {
  DynamicBytes() {
    for (std::size_t j = 0; j < 128; ++j) {
      const auto bits = std::bit_cast<std::uint32_t>(dynamic_values()[j]);
      for (std::size_t p = 0; p < 4; ++p) of[p][j] = static_cast<std::uint8_t>(bits >> (8 * p));
    }
  }
  static const DynamicBytes& get() {
    static const DynamicBytes bytes;
    return bytes;
  }
  /// Returns true if the code for AVX-512 VBMI, which looks up 64 bytes at once, can run and is allowed.
  static bool usable() {
    return __builtin_cpu_supports("avx512vbmi") &&
           device::instruction_set() == device::InstructionSet::avx512;
  }

  alignas(64) std::uint8_t of[4][128];
};

/// The lookup tables of the 8-bit dynamic code (DynamicBytes) in registers. Each gives one byte of 64 floats; these
/// bytes are interleaved into 4 vectors of floats.
class DynamicLookUp {
public:
  REEF_TARGET_VBMI explicit DynamicLookUp(const DynamicBytes& bytes)
      : order_(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)),
        low_{table(bytes, 0, 0), table(bytes, 1, 0), table(bytes, 2, 0), table(bytes, 3, 0)},
        high_{table(bytes, 0, 64), table(bytes, 1, 64), table(bytes, 2, 64), table(bytes, 3, 64)} {}

  /// The floats that 64 bytes of the dynamic code stand for, in order.
  struct Values {
    __m512 of[4];
  };

  /// Returns the floats that the 64 bytes of dynamic code at `from` stand for; if `half`, only those of the first 32
  /// bytes are valid.
  template <bool half = false>
  REEF_ALWAYS_INLINE REEF_TARGET_VBMI Values operator()(const std::uint8_t* from) const {
    const __m512i given =
        half ? _mm512_maskz_loadu_epi8(all >> 32, from) : _mm512_loadu_si512(from);
    const __m512i i = _mm512_maskz_permutexvar_epi32(floats, order_, given);
    // False for the byte 255, which stands for 0.
    const __mmask64 counts = _mm512_cmpneq_epi8_mask(i, _mm512_set1_epi8(-1));
    const __m512i b0 =
        _mm512_maskz_permutex2var_epi8(counts, low_[0], i, high_[0]);  // looks up by the low seven bits of each byte
    const __m512i b1 = _mm512_maskz_permutex2var_epi8(counts, low_[1], i, high_[1]);
    const __m512i b2 = _mm512_maskz_permutex2var_epi8(counts, low_[2], i, high_[2]);
    const __m512i magnitude = _mm512_permutex2var_epi8(low_[3], i, high_[3]);
    const __m512i sign = _mm512_and_si512(i, _mm512_set1_epi8(-0x80));
    const __m512i b3 = _mm512_maskz_add_epi8(counts, magnitude, sign);
    const __m512i first_low = _mm512_maskz_unpacklo_epi8(all, b0, b1);
    const __m512i first_high = _mm512_maskz_unpackhi_epi8(all, b0, b1);
    const __m512i last_low = _mm512_maskz_unpacklo_epi8(all, b2, b3);
    const __m512i last_high = _mm512_maskz_unpackhi_epi8(all, b2, b3);
    return {{_mm512_castsi512_ps(_mm512_maskz_unpacklo_epi16(words, first_low, last_low)),
             _mm512_castsi512_ps(_mm512_maskz_unpackhi_epi16(words, first_low, last_low)),
             _mm512_castsi512_ps(_mm512_maskz_unpacklo_epi16(words, first_high, last_high)),
             _mm512_castsi512_ps(_mm512_maskz_unpackhi_epi16(words, first_high, last_high))}};
  }

private:
  // A mask of all lanes, for masked forms of intrinsics: g++ 12 warns of the other forms.
  static constexpr __mmask64 all = ~__mmask64{0};
  static constexpr __mmask32 words = ~__mmask32{0};
  static constexpr __mmask16 floats = 0xFFFF;

  REEF_ALWAYS_INLINE REEF_TARGET_VBMI static __m512i table(const DynamicBytes& bytes, std::size_t p,
                                                           std::size_t from) {
    return _mm512_loadu_si512(bytes.of[p] + from);
  }

  __m512i order_;  // the permutation that gives each 16 bytes four bytes of each vector of floats
  __m512i low_[4];
  __m512i high_[4];
};

/// The sums of one row of a product for the 32 columns of a panel of a packed matrix, in registers.
class DynamicSums {
public:
  REEF_TARGET_VBMI explicit DynamicSums(const float* sums)
      : low_(_mm512_loadu_ps(sums)), high_(_mm512_loadu_ps(sums + 16)) {}

  /// Sets the block of the packed matrix from which add() reads.
  REEF_ALWAYS_INLINE REEF_TARGET_VBMI void start(const DynamicPanels<float>::Block& block) {
    at_ = block.at;
    largest_low_ = _mm512_loadu_ps(block.largest);
    largest_high_ = _mm512_loadu_ps(block.largest + 16);
  }
  /// Adds in[k] times row k of the packed block, and then in[k + 1] times row k + 1 if `both`.
  template <bool both>
  REEF_ALWAYS_INLINE REEF_TARGET_VBMI void add(const DynamicLookUp& look_up, const float* in,
                                               std::int64_t k) {
    fetch_lines<1>(at_ + (k + rows_ahead) * panel_columns);
    const DynamicLookUp::Values values =
        look_up.template operator()<!both>(at_ + k * panel_columns);
    low_ = _mm512_fmadd_ps(_mm512_set1_ps(in[k]), _mm512_mul_ps(values.of[0], largest_low_), low_);
    high_ =
        _mm512_fmadd_ps(_mm512_set1_ps(in[k]), _mm512_mul_ps(values.of[1], largest_high_), high_);
    if constexpr (both) {
      low_ = _mm512_fmadd_ps(_mm512_set1_ps(in[k + 1]), _mm512_mul_ps(values.of[2], largest_low_),
                             low_);
      high_ = _mm512_fmadd_ps(_mm512_set1_ps(in[k + 1]), _mm512_mul_ps(values.of[3], largest_high_),
                              high_);
    }
  }
  REEF_TARGET_VBMI void store(float* sums) const {
    _mm512_storeu_ps(sums, low_);
    _mm512_storeu_ps(sums + 16, high_);
  }

private:
  const std::uint8_t* at_ = nullptr;
  __m512 largest_low_;
  __m512 largest_high_;
  __m512 low_;
  __m512 high_;
};

/// Computes the products of one row with panels (32 columns) in the dynamic 8-bit code, as RowProduct does, two panels
/// at a time; if one is left, it is computed twice.
REEF_TARGET_VBMI inline void row_times_bytes(float* sums, const float* in,
                                             const DynamicPanels<float>& panels, std::int64_t panel,
                                             std::int64_t P, std::int64_t K) {
  const DynamicLookUp look_up(DynamicBytes::get());
  for (std::int64_t p = 0; p < P; p += 2) {
    const std::int64_t next = (std::min)(p + 1, P - 1);
    DynamicSums one(sums + p * panel_columns);
    DynamicSums two(sums + next * panel_columns);
    for (std::int64_t first = 0; first < K; first += panel_block) {
      one.start(panels.block(panel + p, first));
      two.start(panels.block(panel + next, first));
      const std::int64_t depth = (std::min)(panel_block, K - first);
      for (std::int64_t k = 0; k + 2 <= depth; k += 2) {
        one.add<true>(look_up, in + first, k);
        two.add<true>(look_up, in + first, k);
      }
      if (depth % 2 == 0) continue;
      one.add<false>(look_up, in + first, depth - 1);
      two.add<false>(look_up, in + first, depth - 1);
    }
    one.store(sums + p * panel_columns);
    two.store(sums + next * panel_columns);
  }
}

/// Writes the decoded numbers of a panel (32 columns) in the dynamic 8-bit code, as DecodePanel does.
REEF_TARGET_VBMI inline void decode_bytes(float* to, const DynamicPanels<float>& panels,
                                          std::int64_t panel, std::int64_t k, std::int64_t count) {
  const DynamicLookUp look_up(DynamicBytes::get());
  for (std::int64_t done = 0; done < count; done += panel_block) {
    const auto block = panels.block(panel, k + done);
    const __m512 low = _mm512_loadu_ps(block.largest);
    const __m512 high = _mm512_loadu_ps(block.largest + 16);
    const std::int64_t depth = (std::min)(panel_block, count - done);
    for (std::int64_t i = 0; i + 2 <= depth; i += 2, to += 2 * panel_columns) {
      const auto values = look_up(block.at + i * panel_columns);
      _mm512_storeu_ps(to, _mm512_mul_ps(values.of[0], low));
      _mm512_storeu_ps(to + 16, _mm512_mul_ps(values.of[1], high));
      _mm512_storeu_ps(to + 32, _mm512_mul_ps(values.of[2], low));
      _mm512_storeu_ps(to + 48, _mm512_mul_ps(values.of[3], high));
    }
    if (depth % 2 == 0) continue;
    const auto values = look_up.template operator()<true>(block.at + (depth - 1) * panel_columns);
    _mm512_storeu_ps(to, _mm512_mul_ps(values.of[0], low));
    _mm512_storeu_ps(to + 16, _mm512_mul_ps(values.of[1], high));
  }
}

/// The two-level scales of a 4-bit matrix (Float4Panels), of which it joins the levels. It is a struct because nvcc
/// drops the target of a lambda.
struct NestedScales {
  const Float4Panels<float>& panels;
  std::int64_t blocks;
  std::int64_t groups;
  __m512 mean;

  /// Writes 16 scales of a quantised matrix's blocks.
  REEF_ALWAYS_INLINE REEF_TARGET_VBMI void write(float* at, __m512 nested, __m512i step, std::int64_t place,
                                                 __mmask16 own) const {
    // The groups of 256 blocks to which the blocks of these columns belong: most often 16 groups or fewer.
    const __m512i group = _mm512_maskz_srli_epi32(
        0xFFFF, _mm512_add_epi32(step, _mm512_set1_epi32(static_cast<int>(place % 256))), 8);
    const float* const above = panels.above + place / 256;
    const std::int64_t left = groups - place / 256;
    __m512 factor = _mm512_setzero_ps();
    if (255 + 31 * blocks < 16 * 256) {
      const auto there = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1 << left) - 1);
      factor = _mm512_maskz_permutexvar_ps(own, group, _mm512_maskz_loadu_ps(there, above));
    } else {
      factor = _mm512_mask_i32gather_ps(factor, own, group, above, 4);
    }
    __m512 result = _mm512_mul_ps(nested, factor);
    // Keeps the compiler from fusing this product with an addition, as core/product.hpp does.
    __asm__("" : "+v"(result));
    _mm512_storeu_ps(at, _mm512_maskz_add_ps(own, result, mean));
  }
};

/// Writes the scales of a 4-bit matrix's blocks as Float4Panels::scales does, by AVX-512 VBMI.
REEF_TARGET_VBMI inline void scales_by_bytes(float* to, const Float4Panels<float>& panels,
                                             std::int64_t panel, std::int64_t first,
                                             std::int64_t count) {
  const DynamicLookUp look_up(DynamicBytes::get());
  const std::int64_t blocks = blocks_of(panels.K);
  const std::int64_t columns = (std::min)(panel_columns, panels.N - panel * panel_columns);
  const std::int64_t groups = PanelPlaces<float>::groups(panels.K, panels.N);
  const auto valid = static_cast<std::uint32_t>((std::uint64_t{1} << columns) - 1);
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i low = _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(blocks)));
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(static_cast<int>(16 * blocks)));
  const __m512 mean = _mm512_set1_ps(panels.mean);
  const NestedScales scales{panels, blocks, groups, mean};
  const std::uint8_t* own = panels.bytes + (panel * blocks + first) * panel_columns;
  std::int64_t place = panel * panel_columns * blocks + first;  // the index of the block among those of all columns
  const auto own_low = static_cast<__mmask16>(valid);
  const auto own_high = static_cast<__mmask16>(valid >> 16);
  for (; count >= 2; count -= 2, own += 2 * panel_columns, to += 2 * panel_columns, place += 2) {
    const auto nested = look_up(own);
    scales.write(to, nested.of[0], low, place, own_low);
    scales.write(to + 16, nested.of[1], high, place, own_high);
    scales.write(to + 32, nested.of[2], low, place + 1, own_low);
    scales.write(to + 48, nested.of[3], high, place + 1, own_high);
  }
  if (count == 0) return;
  const auto nested = look_up.template operator()<true>(own);
  scales.write(to, nested.of[0], low, place, own_low);
  scales.write(to + 16, nested.of[1], high, place, own_high);
}

#endif

/// Writes the scales of a 4-bit matrix's blocks as Float4Panels::scales does, by the fastest code of this machine.
template <class E>
void float4_scales(E* to, const Float4Panels<E>& panels, std::int64_t panel, std::int64_t first,
                   std::int64_t count) {
#if defined(__x86_64__) && defined(__GNUC__)
  if constexpr (std::is_same_v<E, float>) {
    if (DynamicBytes::usable()) return scales_by_bytes(to, panels, panel, first, count);
  }
#endif
  panels.scales(to, panel, first, count);
}

/// The panels (32 columns each) of a NormalFloat4 matrix from the indices `panel` and `k` on, and the scales of
/// `blocks` blocks of each, as floats (panel, block, 32).
template <class E>
struct ScaledPanels {
  struct Block {
    const std::uint32_t* at;
    const E* table;
    const E* largest;
    template <class V>
    REEF_ALWAYS_INLINE V load(std::int64_t row, std::int64_t i, std::int64_t c) const {
      return V::load_eighths(at + row / 8 * panel_columns + c, static_cast<int>(i), table) *
             V::load(largest + c);
    }
    REEF_ALWAYS_INLINE void fetch(std::int64_t row) const {
      fetch_lines<2>(at + (row + rows_ahead) / 8 * panel_columns);
    }
  };
  REEF_ALWAYS_INLINE Block block(std::int64_t i, std::int64_t row) const {
    return {panels->codes_at(panel + i, k + row), panels->table.data(),
            scales + (i * blocks + row / panel_block) * panel_columns};
  }

  const Float4Panels<E>* panels;
  const E* scales;
  std::int64_t panel;
  std::int64_t k;
  std::int64_t blocks;
};

/// Computes the products of one row with P panels (32 columns each) of a packed matrix, by the fastest code of this
/// machine; P is at most panels_at_once.
template <class E, class Panels>
void row_times_panels(E* sums, const E* in, const Panels& panels, std::int64_t panel,
                      std::int64_t P, std::int64_t K) {
#if defined(__x86_64__) && defined(__GNUC__)
  if constexpr (std::is_same_v<Panels, DynamicPanels<float>>) {
    if (DynamicBytes::usable()) {
      return row_times_bytes(sums, in, panels, panel, P, K);
    }
  }
#endif
  if constexpr (std::is_same_v<Panels, Float4Panels<E>>) {
    constexpr std::int64_t most = 64;  // the number of blocks whose scales are computed at once
    std::array<E, static_cast<std::size_t>(panels_at_once * most * panel_columns)> scales;
    for (std::int64_t k = 0; k < K; k += most * panel_block) {
      const std::int64_t depth = (std::min)(most * panel_block, K - k);
      const std::int64_t blocks = blocks_of(depth);
      for (std::int64_t p = 0; p < P; ++p) {
        float4_scales(scales.data() + p * blocks * panel_columns, panels, panel + p,
                      k / panel_block, blocks);
      }
      const ScaledPanels<E> scaled{&panels, scales.data(), panel, k, blocks};
      device::run_vectors<E>(RowProduct{}, sums, in + k, &scaled, std::int64_t{0}, P, depth);
    }
  } else {
    device::run_vectors<E>(RowProduct{}, sums, in, &panels, panel, P, K);
  }
}

/// Writes `count` decoded rows of a panel (32 columns) of a packed matrix, as DecodePanel does, by the fastest code of
/// this machine.
template <class E, class Panels>
void decode_panel(E* to, const Panels& panels, std::int64_t panel, std::int64_t k,
                  std::int64_t count) {
#if defined(__x86_64__) && defined(__GNUC__)
  if constexpr (std::is_same_v<Panels, DynamicPanels<float>>) {
    if (DynamicBytes::usable()) return decode_bytes(to, panels, panel, k, count);
  }
#endif
  device::run_vectors<E>(DecodePanel{}, to, &panels, panel, k, count);
}

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
