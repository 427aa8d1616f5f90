#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <reef/codec/detail/normal_float4_values.hpp>
#include <reef/core/bfloat16.hpp>
#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>
#include <reef/device/launch.cuh>
#include <reef/graph/rows.hpp>
#include <reef/nn/host/rows/panels.hpp>

/// Packed matrices in the memory of a GPU, in the bytes of nn/host/rows/panels.hpp: PanelPlaces names the parts.
///
/// The structs are parameters of kernels. All of them have
///
/// | member                           | gives                                                                       |
/// |---|---|
/// | units(depth)                     | the units of `depth` k of a panel: what a thread loads at once               |
/// | load(panel, k, unit)             | the bits of a unit, of those that begin at k, a multiple of 8, with scales    |
/// | decode(tile, unit, bits, values) | writes the unit's numbers to a tile (depth, 32)                              |
/// | at(k, n, values)                 | one number                                                                  |
/// | table, value(i)                  | the size and elements of a code's table, which kernels copy to `values`       |
namespace reef {
inline namespace v0 {
namespace nn::cuda {

inline constexpr int panel_columns = static_cast<int>(host::detail::panel_columns);
inline constexpr int panel_block = static_cast<int>(host::detail::panel_block);
static_assert(panel_columns == device::cuda_warp);

/// A unit of panels whose numbers lie one by one, in type W: four columns of one k.
template <class W>
struct alignas(4 * sizeof(W)) PanelQuad {
  W number[4];
};

/// Returns whether a unit of four columns lies before k = K, and calls use(row of the panel, first column).
template <class Use>
__device__ __forceinline__ void with_quad(std::int64_t k, int unit, std::int64_t K,
                                          const Use& use) {
  const std::int64_t row = k + unit / (panel_columns / 4);
  if (row < K) use(row, unit % (panel_columns / 4) * 4);
}

/// The panels of a matrix whose numbers have no scales.
template <class E, class W>
struct NumberPanels {
  static constexpr int table = 0;
  REEF_HOST_DEVICE static constexpr int units(int depth) { return depth * panel_columns / 4; }
  using Bits = PanelQuad<W>;

  NumberPanels(const void* packed, std::int64_t k, std::int64_t /*N*/)
      : numbers(static_cast<const W*>(packed)), K(k) {}

  __device__ float value(int /*i*/) const { return 0; }
  __device__ __forceinline__ Bits load(std::int64_t panel, std::int64_t k, int unit) const {
    Bits bits{};
    with_quad(k, unit, K, [&](std::int64_t row, int c) {
      bits = *reinterpret_cast<const Bits*>(numbers + (panel * K + row) * panel_columns + c);
    });
    return bits;
  }
  __device__ __forceinline__ void decode(E* tile, int unit, const Bits& bits,
                                         const float* /*values*/) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) tile[4 * unit + i] = static_cast<E>(bits.number[i]);
  }
  __device__ __forceinline__ E at(std::int64_t k, std::int64_t n, const float* /*values*/) const {
    return static_cast<E>(numbers[(n / panel_columns * K + k) * panel_columns + n % panel_columns]);
  }

  const W* numbers;
  std::int64_t K;
};

/// The bits and the scales of a unit of bytes.
template <class E, class W>
struct ScaledQuad {
  PanelQuad<W> codes;
  E scale[4];
};

/// The panels of an int8 matrix, in which each column has one scale.
template <class E>
struct Int8Panels {
  static constexpr int table = 0;
  REEF_HOST_DEVICE static constexpr int units(int depth) { return depth * panel_columns / 4; }
  using Bits = ScaledQuad<E, std::int8_t>;

  Int8Panels(const void* packed, std::int64_t k, std::int64_t N)
      : numbers(static_cast<const std::int8_t*>(packed)),
        scales(reinterpret_cast<const E*>(
            static_cast<const std::byte*>(packed) +
            host::detail::PanelPlaces<E>(k, N, graph::WeightForm::int8).scales)),
        K(k) {}

  __device__ float value(int /*i*/) const { return 0; }
  __device__ __forceinline__ Bits load(std::int64_t panel, std::int64_t k, int unit) const {
    Bits bits{};
    with_quad(k, unit, K, [&](std::int64_t row, int c) {
      bits.codes = *reinterpret_cast<const PanelQuad<std::int8_t>*>(
          numbers + (panel * K + row) * panel_columns + c);
#pragma unroll
      for (int i = 0; i < 4; ++i) bits.scale[i] = scales[panel * panel_columns + c + i];
    });
    return bits;
  }
  __device__ __forceinline__ void decode(E* tile, int unit, const Bits& bits,
                                         const float* /*values*/) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      tile[4 * unit + i] = product(static_cast<E>(bits.codes.number[i]), bits.scale[i]);
  }
  __device__ __forceinline__ E at(std::int64_t k, std::int64_t n, const float* /*values*/) const {
    return product(
        static_cast<E>(numbers[(n / panel_columns * K + k) * panel_columns + n % panel_columns]),
        scales[n]);
  }

  const std::int8_t* numbers;
  const E* scales;
  std::int64_t K;
};

/// The panels of a matrix in the 8-bit dynamic code, in blocks.
template <class E>
struct DynamicPanels {
  static constexpr int table = 256;
  REEF_HOST_DEVICE static constexpr int units(int depth) { return depth * panel_columns / 4; }
  using Bits = ScaledQuad<E, std::uint8_t>;

  DynamicPanels(const void* packed, std::int64_t k, std::int64_t N)
      : bytes(static_cast<const std::uint8_t*>(packed)),
        largest(reinterpret_cast<const E*>(
            static_cast<const std::byte*>(packed) +
            host::detail::PanelPlaces<E>(k, N, graph::WeightForm::blockwise8).scales)),
        K(k) {
    const auto& own = host::detail::dynamic_values();
    std::copy(own.begin(), own.end(), dynamic);
  }

  __device__ float value(int i) const { return dynamic[i]; }
  __device__ __forceinline__ Bits load(std::int64_t panel, std::int64_t k, int unit) const {
    Bits bits{};
    with_quad(k, unit, K, [&](std::int64_t row, int c) {
      bits.codes = *reinterpret_cast<const PanelQuad<std::uint8_t>*>(
          bytes + (panel * K + row) * panel_columns + c);
      const E* const own = largest + (panel * blocks() + row / panel_block) * panel_columns + c;
#pragma unroll
      for (int i = 0; i < 4; ++i) bits.scale[i] = own[i];
    });
    return bits;
  }
  __device__ __forceinline__ void decode(E* tile, int unit, const Bits& bits,
                                         const float* values) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      tile[4 * unit + i] = product(static_cast<E>(values[bits.codes.number[i]]), bits.scale[i]);
  }
  __device__ __forceinline__ E at(std::int64_t k, std::int64_t n, const float* values) const {
    const std::int64_t panel = n / panel_columns;
    const std::int64_t c = n % panel_columns;
    return product(static_cast<E>(values[bytes[(panel * K + k) * panel_columns + c]]),
                   largest[(panel * blocks() + k / panel_block) * panel_columns + c]);
  }
  __device__ __forceinline__ std::int64_t blocks() const {
    return (K + panel_block - 1) / panel_block;
  }

  const std::uint8_t* bytes;
  const E* largest;
  std::int64_t K;
  float dynamic[256];
};

/// The panels of a NormalFloat4 matrix with nested scales. A unit is a word: eight k of one column.
template <class E>
struct Float4Panels {
  static constexpr int table = 256 + 16;
  REEF_HOST_DEVICE static constexpr int units(int depth) { return depth * panel_columns / 8; }
  struct Bits {
    std::uint32_t codes;
    std::uint8_t nested;
    float above;
  };

  Float4Panels(const void* packed, std::int64_t k, std::int64_t n)
      : codes(static_cast<const std::uint32_t*>(packed)), K(k) {
    const host::detail::PanelPlaces<E> places(k, n, graph::WeightForm::nf4);
    nested = static_cast<const std::uint8_t*>(packed) + places.scales;
    above = reinterpret_cast<const float*>(static_cast<const std::byte*>(packed) + places.above);
    groups = places.groups(k, n);
    N = n;
    const auto& dynamic = host::detail::dynamic_values();
    std::copy(dynamic.begin(), dynamic.end(), numbers);
    const auto& quantiles = codec::detail::normal_float4_values;
    std::copy(quantiles.begin(), quantiles.end(), numbers + 256);
  }

  __device__ float value(int i) const { return numbers[i]; }
  __device__ __forceinline__ Bits load(std::int64_t panel, std::int64_t k, int unit) const {
    const std::int64_t row = k + unit / panel_columns * 8;
    const int c = unit % panel_columns;
    return row < K ? bits_at(panel, row, c) : Bits{};
  }
  __device__ __forceinline__ void decode(E* tile, int unit, const Bits& bits,
                                         const float* values) const {
    E* const to = tile + unit / panel_columns * 8 * panel_columns + unit % panel_columns;
    const E scale = scale_of(bits, values);
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i * panel_columns] = number(bits, i, scale, values);
  }
  __device__ __forceinline__ E at(std::int64_t k, std::int64_t n, const float* values) const {
    const Bits bits = bits_at(n / panel_columns, k, static_cast<int>(n % panel_columns));
    return number(bits, static_cast<int>(k % 8), scale_of(bits, values), values);
  }
  __device__ __forceinline__ Bits bits_at(std::int64_t panel, std::int64_t k, int c) const {
    const std::int64_t blocks = (K + panel_block - 1) / panel_block;
    const std::int64_t block = k / panel_block;
    const std::int64_t n = panel * panel_columns + c;
    return {codes[(panel * ((K + 7) / 8) + k / 8) * panel_columns + c],
            nested[(panel * blocks + block) * panel_columns + c],
            n < N ? above[(n * blocks + block) / 256] : 0.0F};
  }
  __device__ __forceinline__ E scale_of(const Bits& bits, const float* values) const {
    return static_cast<E>(product(values[bits.nested], bits.above) + above[groups]);
  }
  __device__ __forceinline__ E number(const Bits& bits, int i, E scale, const float* values) const {
    return product(static_cast<E>(values[256 + (bits.codes >> (4 * i) & 15)]), scale);
  }

  const std::uint32_t* codes;
  const std::uint8_t* nested;
  const float* above;  // of each 256 blocks; behind them the mean
  std::int64_t groups;
  std::int64_t K;
  std::int64_t N;
  float numbers[table];
};

/// The outliers of an int8 matrix: the inputs k whose numbers are stored as given, behind the scales.
/// In the int8 panels these numbers are 0. There are none in another form.
template <class T>
struct OutlierPanels {
  using E = sum_t<T>;

  OutlierPanels(const void* packed, std::int64_t K, std::int64_t N, graph::WeightForm form) {
    if (form != graph::WeightForm::int8) return;
    header = static_cast<const std::byte*>(packed) + host::detail::PanelPlaces<T>(K, N, form).outliers;
  }

  __device__ __forceinline__ int count() const {
    return header == nullptr ? 0 : *reinterpret_cast<const std::int32_t*>(header);
  }
  /// Returns the inputs of the outliers, ascending.
  __device__ __forceinline__ const std::int32_t* inputs() const {
    return reinterpret_cast<const std::int32_t*>(header) + 1;
  }
  /// Returns the numbers of the 32 columns of a panel for the outlier i of `count`.
  __device__ __forceinline__ const T* row(std::int64_t panel, int i, int count) const {
    const auto* const numbers =
        reinterpret_cast<const T*>(header + host::detail::PanelPlaces<T>::outlier_header(count));
    return numbers + (panel * count + i) * panel_columns;
  }
  /// Returns the number of input k and column n: that of an outlier as given, else `decoded`.
  __device__ __forceinline__ E at(std::int64_t k, std::int64_t n, E decoded) const {
    const int all = count();
    int first = 0;
    for (int behind = all; first < behind;) {
      const int middle = (first + behind) / 2;
      if (inputs()[middle] < k) {
        first = middle + 1;
      } else {
        behind = middle;
      }
    }
    if (first == all || inputs()[first] != k) return decoded;
    return static_cast<E>(row(n / panel_columns, first, all)[n % panel_columns]);
  }

  const std::byte* header = nullptr;  // the count and the inputs; null in another form than int8
};

/// Calls use(panels) with the panels of a packed matrix; their type depends on its form.
template <class T, class Use>
void with_panels(const void* packed, std::int64_t K, std::int64_t N, graph::WeightForm form,
                 const Use& use) {
  using E = sum_t<T>;
  switch (form) {
    case graph::WeightForm::as_given: return use(NumberPanels<E, T>(packed, K, N));
    case graph::WeightForm::bf16: return use(NumberPanels<E, Bfloat16>(packed, K, N));
    case graph::WeightForm::int8: return use(Int8Panels<E>(packed, K, N));
    case graph::WeightForm::blockwise8: return use(DynamicPanels<E>(packed, K, N));
    case graph::WeightForm::nf4: return use(Float4Panels<E>(packed, K, N));
  }
}

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
