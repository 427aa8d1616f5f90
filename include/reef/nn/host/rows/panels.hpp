#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/detail/dynamic_code.hpp>
#include <reef/codec/detail/normal_float4_values.hpp>
#include <reef/codec/int8_rows.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// The number of columns in a panel of a packed matrix: panel j has columns 32 j to 32 j + 31, and so 32 numbers in
/// each row k.
inline constexpr std::int64_t panel_columns = 32;

/// The number of a column's numbers that share a scale, in quantised forms with blocks: block b has the rows 64 b to 64
/// b + 63.
inline constexpr std::int64_t panel_block = 64;

inline std::int64_t panels_of(std::int64_t N) { return (N + panel_columns - 1) / panel_columns; }
inline std::int64_t blocks_of(std::int64_t K) { return (K + panel_block - 1) / panel_block; }

/// Returns the number of 32-bit words for the K 4-bit codes of a column.
inline std::int64_t words_of(std::int64_t K) { return (K + 7) / 8; }

/// Returns the byte by which a packed matrix stores an index into the 8-bit dynamic code. The highest bit is the sign,
/// the others the magnitude, from 0 for index 128 to 127 for the number 1; the byte 255, which would be -1, stands for
/// 0.
constexpr std::uint8_t dynamic_byte(std::uint8_t index) {
  if (index == 127) return 255;
  return static_cast<std::uint8_t>(index > 127 ? index - 128 : 128 + (126 - index));
}

/// Returns the numbers of the 8-bit dynamic code, indexed by dynamic_byte.
inline const std::array<float, 256>& dynamic_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> result{};
    for (std::size_t i = 0; i < 256; ++i) {
      const auto index = static_cast<std::uint8_t>(i);
      result[dynamic_byte(index)] = codec::detail::dynamic_code().value(index);
    }
    return result;
  }();
  return values;
}

/// Returns a table of numbers of type E, converted from floats.
template <class E, std::size_t n>
std::array<E, n> table_of(const std::array<float, n>& values) {
  std::array<E, n> result{};
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

/// The offsets of the parts of a packed (K, N) matrix in its memory, all multiples of 64 bytes.
///
/// | as_given, bf16 | numbers (panel, k, 32)                                                                     |
/// | int8           | numbers (panel, k, 32) int8; scales (panel, 32): the largest magnitude of a column / 127;  |
/// |                | outliers: their count and inputs, int32; their numbers as given, (panel, count, 32)        |
/// | blockwise8     | bytes (panel, k, 32), dynamic_byte of a number; largest magnitudes (panel, block, 32)      |
/// | nf4            | codes (panel, k / 8, 32) 32-bit words: half byte i is the code of a column at k = 8 j + i; |
/// |                | nested scales: bytes (panel, block, 32), dynamic_byte of a scale, times a float for each   |
/// |                | 256 blocks (column by column), plus the mean, a float                                      |
template <class T>
struct PanelPlaces {
  using E = sum_t<T>;

  /// Computes the offsets for a matrix of k rows and n columns in this form. `count`: the number of outliers
  /// (unquantised inputs), of int8.
  PanelPlaces(std::int64_t k, std::int64_t n, graph::WeightForm form, std::int64_t count = 0) {
    const auto numbers = static_cast<Bytes>(panels_of(n) * panel_columns * k);
    const auto blocks = static_cast<Bytes>(panels_of(n) * panel_columns * blocks_of(k));
    switch (form) {
      case graph::WeightForm::as_given: bytes = numbers * sizeof(T); return;
      case graph::WeightForm::bf16: bytes = numbers * sizeof(Bfloat16); return;
      case graph::WeightForm::int8:
        scales = round_up(numbers, 64);
        outliers = round_up(scales + static_cast<Bytes>(panels_of(n) * panel_columns) * sizeof(E), 64);
        bytes = outliers + outlier_header(count) + static_cast<Bytes>(panels_of(n) * panel_columns * count) * sizeof(T);
        return;
      case graph::WeightForm::blockwise8:
        scales = round_up(numbers, 64);
        bytes = scales + blocks * sizeof(E);
        return;
      case graph::WeightForm::nf4:
        scales = static_cast<Bytes>(panels_of(n) * panel_columns * words_of(k)) * sizeof(std::uint32_t);
        above = round_up(scales + blocks, 64);
        bytes = above + static_cast<Bytes>(groups(k, n) + 1) * sizeof(float);
        return;
    }
  }
  /// Returns the number of groups of 256 blocks, whose scales are quantised together, in a matrix of k rows and n
  /// columns; each group has a largest magnitude of its own.
  static std::int64_t groups(std::int64_t k, std::int64_t n) { return (n * blocks_of(k) + 255) / 256; }

  /// Returns the bytes before the numbers of outliers (unquantised inputs): their count and their inputs.
  REEF_HOST_DEVICE static constexpr Bytes outlier_header(std::int64_t count) {
    return (static_cast<Bytes>(count + 1) * sizeof(std::int32_t) + 63) / 64 * 64;
  }

  Bytes scales = 0;
  Bytes above = 0;
  Bytes outliers = 0;
  Bytes bytes = 0;
};

/// The number of rows of a packed matrix by which prefetching is ahead of reading.
inline constexpr std::int64_t rows_ahead = 64;

/// Prefetches `lines` cache lines of 64 bytes each into the nearest cache.
template <int lines>
REEF_ALWAYS_INLINE void fetch_lines(const void* from) {
  for (int i = 0; i < lines; ++i) __builtin_prefetch(static_cast<const char*>(from) + 64 * i);
}

/// The panels (32 columns each) of a packed matrix whose numbers are stored without scales, as type W. All types of
/// panels have block(panel, k), a Block of a panel from row k, a multiple of 64, on, with two functions:
///
///     load<V>(k, i, c)   the columns from c on in row k + i; k is a multiple of 8, i below 8, constant to be fast
///     fetch(k)           fetches 8 rows ahead of row k, for numbers of few bytes: these take long to decode, and are
///                        read too slowly for the processor to fetch far ahead by itself
template <class E, class W>
struct NumberPanels {
  NumberPanels(const void* packed, std::int64_t k, std::int64_t /*N*/) : numbers(static_cast<const W*>(packed)), K(k) {}

  struct Block {
    const W* at;
    template <class V>
    REEF_ALWAYS_INLINE V load(std::int64_t k, std::int64_t i, std::int64_t c) const {
      return V::load(at + (k + i) * panel_columns + c);
    }
    REEF_ALWAYS_INLINE void fetch([[maybe_unused]] std::int64_t k) const {
      if constexpr (sizeof(W) == 2) fetch_lines<8>(at + (k + rows_ahead) * panel_columns);
    }
  };
  REEF_ALWAYS_INLINE Block block(std::int64_t panel, std::int64_t k) const {
    return {numbers + (panel * K + k) * panel_columns};
  }

  const W* numbers;
  std::int64_t K;
};

/// The panels (32 columns each) of an int8 matrix, in which each column has one scale.
template <class E>
struct Int8Panels {
  Int8Panels(const void* packed, std::int64_t k, std::int64_t N)
      : numbers(static_cast<const std::int8_t*>(packed)),
        scales(reinterpret_cast<const E*>(static_cast<const std::byte*>(packed) +
                                          PanelPlaces<E>(k, N, graph::WeightForm::int8).scales)),
        K(k) {}

  struct Block {
    const std::int8_t* at;
    const E* scales;
    template <class V>
    REEF_ALWAYS_INLINE V load(std::int64_t k, std::int64_t i, std::int64_t c) const {
      return V::load(at + (k + i) * panel_columns + c) * V::load(scales + c);
    }
    REEF_ALWAYS_INLINE void fetch(std::int64_t k) const { fetch_lines<4>(at + (k + rows_ahead) * panel_columns); }
  };
  REEF_ALWAYS_INLINE Block block(std::int64_t panel, std::int64_t k) const {
    return {numbers + (panel * K + k) * panel_columns, scales + panel * panel_columns};
  }

  const std::int8_t* numbers;
  const E* scales;
  std::int64_t K;
};

/// The panels (32 columns each) of a matrix in the 8-bit dynamic code, in blocks of 64 numbers that share a scale.
template <class E>
struct DynamicPanels {
  DynamicPanels(const void* packed, std::int64_t k, std::int64_t N)
      : bytes(static_cast<const std::uint8_t*>(packed)),
        largest(reinterpret_cast<const E*>(static_cast<const std::byte*>(packed) +
                                           PanelPlaces<E>(k, N, graph::WeightForm::blockwise8).scales)),
        K(k) {}

  struct Block {
    const std::uint8_t* at;
    const E* largest;
    const E* table;
    template <class V>
    REEF_ALWAYS_INLINE V load(std::int64_t k, std::int64_t i, std::int64_t c) const {
      return V::look_up(at + (k + i) * panel_columns + c, table) * V::load(largest + c);
    }
    REEF_ALWAYS_INLINE void fetch(std::int64_t k) const { fetch_lines<4>(at + (k + rows_ahead) * panel_columns); }
  };
  REEF_ALWAYS_INLINE Block block(std::int64_t panel, std::int64_t k) const {
    return {bytes + (panel * K + k) * panel_columns,
            largest + (panel * blocks_of(K) + k / panel_block) * panel_columns, table.data()};
  }

  const std::uint8_t* bytes;
  const E* largest;
  std::int64_t K;
  std::array<E, 256> table = table_of<E>(dynamic_values());
};

/// The panels (32 columns each) of a NormalFloat4 matrix whose scales are quantised, too.
template <class E>
struct Float4Panels {
  Float4Panels(const void* packed, std::int64_t k, std::int64_t n)
      : codes(static_cast<const std::uint32_t*>(packed)), K(k), N(n) {
    const PanelPlaces<E> places(k, n, graph::WeightForm::nf4);
    const auto* const memory = static_cast<const std::uint8_t*>(packed);
    bytes = memory + places.scales;
    above = reinterpret_cast<const float*>(memory + places.above);
    mean = above[places.groups(k, n)];
  }

  struct Block {
    const std::uint32_t* at;
    const E* table;
    E largest[panel_columns];
    template <class V>
    REEF_ALWAYS_INLINE V load(std::int64_t k, std::int64_t i, std::int64_t c) const {
      return V::load_eighths(at + k / 8 * panel_columns + c, static_cast<int>(i), table) * V::load(largest + c);
    }
    REEF_ALWAYS_INLINE void fetch(std::int64_t k) const { fetch_lines<2>(at + (k + rows_ahead) / 8 * panel_columns); }
  };
  REEF_ALWAYS_INLINE Block block(std::int64_t panel, std::int64_t k) const {
    Block result;
    result.at = codes_at(panel, k);
    result.table = table.data();
    scales(result.largest, panel, k / panel_block, 1);
    return result;
  }
  [[nodiscard]] const std::uint32_t* codes_at(std::int64_t panel, std::int64_t k) const {
    return codes + (panel * words_of(K) + k / 8) * panel_columns;
  }
  /// Writes the scales of the blocks (64 rows) [first, first + count) of a panel (32 columns) to `to` (count, 32).
  REEF_ALWAYS_INLINE void scales(E* to, std::int64_t panel, std::int64_t first, std::int64_t count) const {
    const std::int64_t blocks = blocks_of(K);
    const std::int64_t columns = (std::min)(panel_columns, N - panel * panel_columns);
    const std::uint8_t* own = bytes + (panel * blocks + first) * panel_columns;
    for (std::int64_t b = first; b < first + count; ++b, own += panel_columns, to += panel_columns) {
      // The index of the block among those of all columns.
      auto place = static_cast<std::uint64_t>(panel * panel_columns * blocks + b);
      for (std::int64_t c = 0; c < columns; ++c, place += static_cast<std::uint64_t>(blocks)) {
        to[c] = static_cast<E>(product(nested[own[c]], above[place / 256]) + mean);
      }
      for (std::int64_t c = columns; c < panel_columns; ++c) to[c] = E(0);
    }
  }

  const std::uint32_t* codes;
  const std::uint8_t* bytes;
  const float* above;
  float mean;
  std::int64_t K;
  std::int64_t N;
  std::array<E, 16> table = table_of<E>(codec::detail::normal_float4_values);
  const float* nested = dynamic_values().data();
};

/// Calls use(panels) with the panels (32 columns each) of a packed matrix; the type of `panels` depends on the matrix's
/// form.
template <class T, class Use>
void with_panels(const void* packed, std::int64_t K, std::int64_t N, graph::WeightForm form, const Use& use) {
  using E = sum_t<T>;
  switch (form) {
    case graph::WeightForm::as_given: return use(NumberPanels<E, T>(packed, K, N));
    case graph::WeightForm::bf16: return use(NumberPanels<E, Bfloat16>(packed, K, N));
    case graph::WeightForm::int8: return use(Int8Panels<E>(packed, K, N));
    case graph::WeightForm::blockwise8: return use(DynamicPanels<E>(packed, K, N));
    case graph::WeightForm::nf4: return use(Float4Panels<E>(packed, K, N));
  }
}

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
