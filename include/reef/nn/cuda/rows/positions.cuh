#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

#include <cuda/std/limits>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/launch.cuh>
#include <reef/graph/rows.hpp>
#include <reef/nn/cuda/rotary.cuh>
#include <reef/nn/cuda/rows/panels.cuh>
#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// The positions of at most 128 rows, which a kernel is told as a parameter: nothing is copied, and nobody waits.
struct RowPositions {
  static constexpr std::int64_t most = 128;
  std::int64_t of[most];

  /// Calls use(positions, first row, rows) for each 128 rows.
  template <class Use>
  static void each(std::span<const graph::Row> rows, const Use& use) {
    for (std::int64_t first = 0; first < std::ssize(rows); first += most) {
      const std::int64_t count = (std::min)(most, std::ssize(rows) - first);
      RowPositions positions{};
      for (std::int64_t i = 0; i < count; ++i)
        positions.of[i] = rows[static_cast<std::size_t>(first + i)].position;
      use(positions, first, count);
    }
  }
};

/// A function that writes the cosines and sines, both (rows, half), of pairs [first, first + count). i counts (rows,
/// count).
template <class E>
struct RowsRotaryTable {
  E* cosines;
  E* sines;
  std::int64_t half, first, count;
  RowPositions positions;
  double frequency[rotary_chunk];

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t row = i / count;
    const std::int64_t pair = i % count;
    const double angle = product(static_cast<double>(positions.of[row]), frequency[pair]);
    const std::int64_t at = row * half + first + pair;
    cosines[at] = static_cast<E>(cos(angle));
    sines[at] = static_cast<E>(sin(angle));
  }
};

/// A function that turns the pair (j, j + half) of a head of D columns. i counts (rows, H, half).
template <class T>
struct TurnRows {
  T* out;
  const T* in;
  const sum_t<T>* cosines;
  const sum_t<T>* sines;
  std::int64_t H, D, half;

  __device__ void operator()(std::int64_t i) const {
    using E = sum_t<T>;
    const std::int64_t head = i / half;
    const std::int64_t pair = i % half;
    const std::int64_t turn = head / H * half + pair;
    const std::int64_t at = head * D + pair;
    const E a = in[at];
    const E b = in[at + half];
    const E c = cosines[turn];
    const E s = sines[turn];
    out[at] = T(fma(a, c, fma(-b, s, E(0))));
    out[at + half] = T(fma(b, c, fma(a, s, E(0))));
  }
};

/// A function that overwrites rows of positions below P. i counts (rows, C).
template <class T>
struct PrefixRows {
  T* out;
  const T* vectors;
  const T* wpe;  // or null
  std::int64_t C, P;
  RowPositions positions;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t p = positions.of[i / C];
    if (p >= P) return;
    const std::int64_t at = p * C + i % C;
    out[i] = wpe == nullptr ? vectors[at] : T(sum_t<T>{vectors[at]} + sum_t<T>{wpe[at]});
  }
};

/// Adds a vector to each row of a position below P, and copies the other rows.
template <class T>
struct AddedPrefixRows {
  T* out;
  const T* in;
  const T* vectors;
  std::int64_t C, P;
  RowPositions positions;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t p = positions.of[i / C];
    out[i] = p < P ? T(sum_t<T>{in[i]} + sum_t<T>{vectors[p * C + i % C]}) : in[i];
  }
};

/// Decodes one vector of a packed table for each row; of a token outside it NaNs.
template <class T, class Panels>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    rows_vectors_kernel(T* out, const std::int32_t* tokens, Panels panels,
                        OutlierPanels<T> outliers, const T* wpe, RowPositions positions,
                        std::int64_t elements, std::int64_t C, std::int64_t V) {
  using E = sum_t<T>;
  __shared__ float values[Panels::table == 0 ? 1 : Panels::table];
  for (int i = static_cast<int>(threadIdx.x); i < Panels::table; i += device::cuda_block)
    values[i] = panels.value(i);
  if constexpr (Panels::table != 0) __syncthreads();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < elements; i += stride) {
    const std::int64_t token = tokens[i / C];
    E value = ::cuda::std::numeric_limits<E>::quiet_NaN();
    if (token >= 0 && token < V) {
      value = panels.at(i % C, token, values);
      if constexpr (std::is_same_v<Panels, Int8Panels<E>>) value = outliers.at(i % C, token, value);
    }
    out[i] =
        T(wpe == nullptr ? value : value + static_cast<E>(wpe[positions.of[i / C] * C + i % C]));
  }
}

/// The kernels for rows that depend on positions, of RowKernels<device::Cuda>. Angles are found in fp64 on the device.
struct RowsPositions {
  template <real T>
  static Bytes rows_rotary_workspace(std::int64_t R, std::int64_t turned) {
    return static_cast<Bytes>(2 * R * (turned / 2)) * sizeof(sum_t<T>);
  }

  template <real T>
  static void rows_rotary(device::Cuda::Lane& lane, T* out, const T* in,
                          std::span<const graph::Row> rows, std::int64_t H, std::int64_t D,
                          std::int64_t turned, const RotaryFrequencies& frequencies,
                          void* workspace) {
    using E = sum_t<T>;
    const std::int64_t R = std::ssize(rows);
    const std::int64_t half = turned / 2;
    E* const cosines = static_cast<E*>(workspace);
    E* const sines = cosines + R * half;
    for (std::int64_t first = 0; first < half; first += rotary_chunk) {
      const std::int64_t count = (std::min)(half - first, std::int64_t{rotary_chunk});
      RowsRotaryTable<E> table{cosines, sines, half, first, count, {}, {}};
      for (std::int64_t i = 0; i < count; ++i)
        table.frequency[i] = frequencies.of(first + i, turned);
      RowPositions::each(rows,
                         [&](const RowPositions& positions, std::int64_t row, std::int64_t part) {
                           table.cosines = cosines + row * half;
                           table.sines = sines + row * half;
                           table.positions = positions;
                           device::for_each_index(lane, part * count, table);
                         });
    }
    device::for_each_index(lane, R * H * half, TurnRows<T>{out, in, cosines, sines, H, D, half});
    if (turned < D)
      device::for_each_index(lane, R * H * (D - turned),
                             CopyUnturned<T>{out, in, D, turned, false});
  }

  /// Throws DecodeError for a position without a vector; a token outside the table gives NaNs, since a kernel reads it.
  template <real T>
  static void rows_vectors(device::Cuda::Lane& lane, T* out, const std::int32_t* tokens,
                           const void* packed, const T* wpe, std::span<const graph::Row> rows,
                           std::int64_t C, std::int64_t V, std::int64_t positions,
                           graph::WeightForm form) {
    for (const graph::Row& row : rows) {
      if (wpe == nullptr || row.position < positions) continue;
      throw DecodeError("reef::nn: position ", row.position, " is outside the ", positions,
                        " positions that have a vector.\n  fix: a shorter sequence.");
    }
    const OutlierPanels<T> outliers(packed, C, V, form);
    with_panels<T>(packed, C, V, form, [&](const auto& panels) {
      using Panels = std::remove_cvref_t<decltype(panels)>;
      RowPositions::each(rows, [&](const RowPositions& own, std::int64_t first,
                                   std::int64_t count) {
        const std::int64_t elements = count * C;
        device::launch(lane, "rows_vectors", &rows_vectors_kernel<T, Panels>,
                       (elements + device::cuda_block - 1) / device::cuda_block, device::cuda_block,
                       0, out + first * C, tokens + first, panels, outliers, wpe, own, elements,
                       C, V);
      });
    });
  }

  template <real T>
  static void rows_prefix(device::Cuda::Lane& lane, T* out, const T* vectors, const T* wpe,
                          std::span<const graph::Row> rows, std::int64_t C, std::int64_t P) {
    RowPositions::each(rows, [&](const RowPositions& own, std::int64_t first, std::int64_t count) {
      device::for_each_index(lane, count * C,
                             PrefixRows<T>{out + first * C, vectors, wpe, C, P, own});
    });
  }

  template <real T>
  static void rows_added_prefix(device::Cuda::Lane& lane, T* out, const T* in, const T* vectors,
                                std::span<const graph::Row> rows, std::int64_t C, std::int64_t P) {
    RowPositions::each(rows, [&](const RowPositions& own, std::int64_t first, std::int64_t count) {
      device::for_each_index(lane, count * C,
                             AddedPrefixRows<T>{out + first * C, in + first * C, vectors, C, P, own});
    });
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
