#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/int8_rows.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/host/rows/outliers.hpp>
#include <reef/nn/host/rows/panels.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// A matrix with K rows and N columns as a parameter stores it: as (K, N), or transposed as (N, K).
template <class T>
struct GivenMatrix {
  const T* w;
  std::int64_t K;
  std::int64_t N;
  Transpose transpose;

  [[nodiscard]] T at(std::int64_t k, std::int64_t n) const {
    return transpose == Transpose::no ? w[k * N + n] : w[n * K + k];
  }
};

/// Calls place(at, k, n) for each number of a packed matrix (K, N): it is stored at index `at`, and is that of row k
/// and column n; n is -1 beyond the last column.
template <class Place>
void each_packed(device::Host::Lane& lane, std::int64_t K, std::int64_t N, const Place& place) {
  lane.parallel(panels_of(N), [&](std::int64_t panel) {
    for (std::int64_t k = 0; k < K; ++k) {
      for (std::int64_t c = 0; c < panel_columns; ++c) {
        const std::int64_t n = panel * panel_columns + c;
        place((panel * K + k) * panel_columns + c, k, n < N ? n : -1);
      }
    }
  });
}

/// Calls place(at, block, n) for each block (numbers that share a scale) of each column of a packed matrix, as
/// each_packed does for numbers.
template <class Place>
void each_packed_block(std::int64_t K, std::int64_t N, const Place& place) {
  const std::int64_t blocks = blocks_of(K);
  for (std::int64_t panel = 0; panel < panels_of(N); ++panel) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (std::int64_t c = 0; c < panel_columns; ++c) {
        const std::int64_t n = panel * panel_columns + c;
        place((panel * blocks + b) * panel_columns + c, b, n < N ? n : -1);
      }
    }
  }
}

/// Returns the transposed matrix as floats, N rows of K numbers; each row is filled with zeros up to a multiple of
/// `width`.
template <class T>
std::vector<float> columns_as_rows(device::Host::Lane& lane, const GivenMatrix<T>& matrix, std::int64_t width) {
  const std::int64_t K = (matrix.K + width - 1) / width * width;
  std::vector<float> rows(static_cast<std::size_t>(matrix.N * K));
  lane.parallel(matrix.N, [&](std::int64_t n) {
    for (std::int64_t k = 0; k < matrix.K; ++k) {
      rows[static_cast<std::size_t>(n * K + k)] = static_cast<float>(matrix.at(k, n));
    }
  });
  return rows;
}

template <class W, class T>
void pack_numbers(device::Host::Lane& lane, W* to, const GivenMatrix<T>& matrix) {
  each_packed(lane, matrix.K, matrix.N, [&](std::int64_t at, std::int64_t k, std::int64_t n) {
    to[at] = n < 0 ? W(T(0)) : W(matrix.at(k, n));
  });
}

/// The inputs of a matrix that are to be stored unquantised: how many, and the magnitude of each of the K inputs, or
/// unknown.
struct WantedOutliers {
  std::int64_t count = 0;
  std::span<const float> magnitudes;
};

template <class T>
void pack_int8(device::Host::Lane& lane, void* packed, const GivenMatrix<T>& matrix, const WantedOutliers& wanted) {
  using E = sum_t<T>;
  const PanelPlaces<T> places(matrix.K, matrix.N, graph::WeightForm::int8);
  std::vector<float> columns = columns_as_rows(lane, matrix, 1);
  std::vector<std::int32_t> outliers;
  if (wanted.count > 0) {
    outliers = chosen_outliers(outlier_scores(lane, columns, matrix.K, wanted.magnitudes), wanted.count);
    for (std::int64_t n = 0; n < matrix.N; ++n) {
      for (const std::int32_t k : outliers) columns[static_cast<std::size_t>(n * matrix.K + k)] = 0;
    }
  }
  auto* const header = reinterpret_cast<std::int32_t*>(static_cast<std::byte*>(packed) + places.outliers);
  *header = static_cast<std::int32_t>(outliers.size());
  std::copy(outliers.begin(), outliers.end(), header + 1);
  auto* const given = reinterpret_cast<T*>(static_cast<std::byte*>(packed) + places.outliers +
                                           PanelPlaces<T>::outlier_header(wanted.count));
  each_packed(lane, wanted.count, matrix.N, [&](std::int64_t at, std::int64_t i, std::int64_t n) {
    given[at] = n < 0 ? T(0) : matrix.at(outliers[static_cast<std::size_t>(i)], n);
  });
  const codec::Int8Rows rows = codec::int8_rows(columns, matrix.K);
  auto* const numbers = static_cast<std::int8_t*>(packed);
  auto* const scales = reinterpret_cast<E*>(static_cast<std::byte*>(packed) + places.scales);
  each_packed(lane, matrix.K, matrix.N, [&](std::int64_t at, std::int64_t k, std::int64_t n) {
    numbers[at] = n < 0 ? std::int8_t{0} : rows.values[static_cast<std::size_t>(n * matrix.K + k)];
  });
  for (std::int64_t n = 0; n < panels_of(matrix.N) * panel_columns; ++n) {
    scales[n] = n < matrix.N ? static_cast<E>(rows.largest[static_cast<std::size_t>(n)] / 127.0F) : E(0);
  }
}

template <class T>
void pack_blockwise8(device::Host::Lane& lane, void* packed, const GivenMatrix<T>& matrix) {
  using E = sum_t<T>;
  const std::int64_t blocks = blocks_of(matrix.K);
  const std::vector<float> rows = columns_as_rows(lane, matrix, panel_block);
  std::vector<float> largest(static_cast<std::size_t>(matrix.N * blocks));
  std::vector<std::uint8_t> found(rows.size());
  codec::Blockwise8{panel_block}.quantize(rows, largest, found);
  auto* const bytes = static_cast<std::uint8_t*>(packed);
  auto* const scales = reinterpret_cast<E*>(static_cast<std::byte*>(packed) +
                                            PanelPlaces<T>(matrix.K, matrix.N, graph::WeightForm::blockwise8).scales);
  each_packed(lane, matrix.K, matrix.N, [&](std::int64_t at, std::int64_t k, std::int64_t n) {
    bytes[at] = n < 0 ? std::uint8_t{0} : dynamic_byte(found[static_cast<std::size_t>(n * blocks * panel_block + k)]);
  });
  each_packed_block(matrix.K, matrix.N, [&](std::int64_t at, std::int64_t b, std::int64_t n) {
    scales[at] = n < 0 ? E(0) : static_cast<E>(largest[static_cast<std::size_t>(n * blocks + b)]);
  });
}

template <class T>
void pack_float4(device::Host::Lane& lane, void* packed, const GivenMatrix<T>& matrix) {
  const std::int64_t blocks = blocks_of(matrix.K);
  const std::vector<float> rows = columns_as_rows(lane, matrix, panel_block);
  std::vector<std::uint8_t> found(rows.size() / 2);
  const auto scales = codec::NormalFloat4{panel_block, true}.quantize(rows, found);
  const PanelPlaces<T> places(matrix.K, matrix.N, graph::WeightForm::nf4);
  auto* const words = static_cast<std::uint32_t*>(packed);
  auto* const codes = static_cast<std::uint8_t*>(packed);
  const auto code = [&](std::int64_t k, std::int64_t n) {
    if (n >= matrix.N || k >= matrix.K) return 0U;
    const std::int64_t i = n * blocks * panel_block + k;
    return static_cast<std::uint32_t>(found[static_cast<std::size_t>(i / 2)] >> (i % 2 == 0 ? 4 : 0) & 15);
  };
  lane.parallel(panels_of(matrix.N), [&](std::int64_t panel) {
    for (std::int64_t j = 0; j < words_of(matrix.K); ++j) {
      for (std::int64_t c = 0; c < panel_columns; ++c) {
        std::uint32_t word = 0;
        for (std::int64_t i = 0; i < 8; ++i) word |= code(8 * j + i, panel * panel_columns + c) << (4 * i);
        words[(panel * words_of(matrix.K) + j) * panel_columns + c] = word;
      }
    }
  });
  each_packed_block(matrix.K, matrix.N, [&](std::int64_t at, std::int64_t b, std::int64_t n) {
    codes[places.scales + static_cast<Bytes>(at)] =
        n < 0 ? std::uint8_t{0} : dynamic_byte(scales.indices[static_cast<std::size_t>(n * blocks + b)]);
  });
  auto* const above = reinterpret_cast<float*>(codes + places.above);
  std::copy(scales.largest_above.begin(), scales.largest_above.end(), above);
  above[scales.largest_above.size()] = scales.offset;
}

/// Packs a matrix in the given form into `packed`, a memory of PanelPlaces::bytes; outliers (unquantised inputs) are of
/// int8 alone. Throws ShapeError for another number of magnitudes than of inputs, before `packed` is changed.
template <class T>
void pack_panels(device::Host::Lane& lane, void* packed, const GivenMatrix<T>& matrix, graph::WeightForm form,
                 const WantedOutliers& wanted) {
  if (!wanted.magnitudes.empty() && std::ssize(wanted.magnitudes) != matrix.K) {
    throw ShapeError("reef::nn: a matrix of ", matrix.K, " inputs is given the magnitudes of ",
                     wanted.magnitudes.size(), ".\n  fix: one for each input, or none.");
  }
  switch (form) {
    case graph::WeightForm::as_given: return pack_numbers(lane, static_cast<T*>(packed), matrix);
    case graph::WeightForm::bf16: return pack_numbers(lane, static_cast<Bfloat16*>(packed), matrix);
    case graph::WeightForm::int8: return pack_int8(lane, packed, matrix, wanted);
    case graph::WeightForm::blockwise8: return pack_blockwise8(lane, packed, matrix);
    case graph::WeightForm::nf4: return pack_float4(lane, packed, matrix);
  }
}

/// Writes the K numbers of column n of a packed matrix, decoded, to `to`.
template <class E, class Panels>
void unpack_column(E* to, const Panels& panels, std::int64_t n, std::int64_t K) {
  using V = device::Vector<E, device::Portable>;
  const std::int64_t c = n % panel_columns;
  const std::int64_t vector = c / V::width * V::width;
  for (std::int64_t k0 = 0; k0 < K; k0 += panel_block) {
    const auto block = panels.block(n / panel_columns, k0);
    for (std::int64_t k = 0; k < (std::min)(panel_block, K - k0); ++k) {
      to[k0 + k] = block.template load<V>(k / 8 * 8, k % 8, vector).lane[c - vector];
    }
  }
}

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
