#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/host.hpp>
#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>
#include <reef/graph/rows.hpp>
#include <reef/nn/cuda/rows/panels.cuh>
#include <reef/nn/host/rows/packing.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// The part of a product of rows that a block of 256 threads computes: a panel of 32 columns, times 8 * Each rows.
/// `depth` k of both lie in shared memory at once, decoded, and twice: while the warps multiply one, the next is
/// loaded.
template <class E, int Each>
struct RowsTile {
  static constexpr int warps = device::cuda_block / device::cuda_warp;
  static constexpr int rows = warps * Each;
  static constexpr int depth = static_cast<int>((Each == 1 ? 128 : 64) * sizeof(float) / sizeof(E));
  static constexpr int inputs_each = rows * depth / device::cuda_block;

  alignas(16) E weights[2][depth * panel_columns];
  alignas(16) E inputs[2][rows * depth];
};

/// Computes a RowsTile of out (R, N) = in (R, K) w + bias. Warp w has the rows w, w + 8, ... of the tile and lane c
/// column c: an element is one chain of fma over k ascending, from the bias or 0 on, and then over the outliers, in one
/// thread, whatever R is.
template <class T, class Panels, int Each>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    rows_product_kernel(T* out, const T* in, Panels panels, OutlierPanels<T> outliers,
                        const T* bias, std::int64_t R, std::int64_t K, std::int64_t N,
                        std::int64_t row_tiles) {
  using E = sum_t<T>;
  using Tile = RowsTile<E, Each>;
  using Pack = device::Pack<E>;
  constexpr int units = Panels::units(Tile::depth);
  constexpr int units_each = (units + device::cuda_block - 1) / device::cuda_block;
  __shared__ Tile tile;
  __shared__ float values[Panels::table == 0 ? 1 : Panels::table];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / device::cuda_warp;
  const int c = thread % device::cuda_warp;
  const std::int64_t panel =
      blockIdx.x /
      row_tiles;  // blocks of one panel follow one another: it is read from memory once
  const std::int64_t first = blockIdx.x % row_tiles * Tile::rows;
  const std::int64_t n = panel * panel_columns + c;

  for (int i = thread; i < Panels::table; i += device::cuda_block) values[i] = panels.value(i);
  if constexpr (Panels::table != 0) __syncthreads();

  E sum[Each];
#pragma unroll
  for (int m = 0; m < Each; ++m) sum[m] = bias != nullptr && n < N ? static_cast<E>(bias[n]) : E(0);

  typename Panels::Bits bits[units_each];
  E numbers[Tile::inputs_each];
  const auto load = [&](std::int64_t k) {
#pragma unroll
    for (int i = 0; i < units_each; ++i) {
      const int unit = thread + i * device::cuda_block;
      if (unit < units) bits[i] = panels.load(panel, k, unit);
    }
#pragma unroll
    for (int i = 0; i < Tile::inputs_each; ++i) {
      const int place = thread + i * device::cuda_block;
      const std::int64_t row = first + place / Tile::depth;
      const std::int64_t at = k + place % Tile::depth;
      numbers[i] = row < R && at < K ? static_cast<E>(in[row * K + at]) : E(0);
    }
  };
  const auto store = [&](int half) {
#pragma unroll
    for (int i = 0; i < units_each; ++i) {
      const int unit = thread + i * device::cuda_block;
      if (unit < units) panels.decode(tile.weights[half], unit, bits[i], values);
    }
#pragma unroll
    for (int i = 0; i < Tile::inputs_each; ++i)
      tile.inputs[half][thread + i * device::cuda_block] = numbers[i];
  };

  load(0);
  int half = 0;
  for (std::int64_t k = 0; k < K; k += Tile::depth, half ^= 1) {
    store(half);
    if (k + Tile::depth < K) load(k + Tile::depth);
    __syncthreads();  // no warp writes this half again before all have passed the next barrier
    if (first + warp >= R) continue;
    const E* const weights = tile.weights[half] + c;
    const E* const inputs = tile.inputs[half] + warp * Tile::depth;
    const int count = K - k < Tile::depth ? static_cast<int>(K - k) : Tile::depth;
    const int whole = count / Pack::width * Pack::width;
#pragma unroll 4
    for (int i = 0; i < whole; i += Pack::width) {
      Pack x[Each];
#pragma unroll
      for (int m = 0; m < Each; ++m) x[m] = Pack::load(inputs + m * Tile::warps * Tile::depth + i);
#pragma unroll
      for (int e = 0; e < Pack::width; ++e) {
        const E weight = weights[(i + e) * panel_columns];
#pragma unroll
        for (int m = 0; m < Each; ++m) sum[m] = fma(x[m].element[e], weight, sum[m]);
      }
    }
    for (int i = whole; i < count; ++i) {
      const E weight = weights[i * panel_columns];
#pragma unroll
      for (int m = 0; m < Each; ++m)
        sum[m] = fma(inputs[m * Tile::warps * Tile::depth + i], weight, sum[m]);
    }
  }
  if constexpr (std::is_same_v<Panels, Int8Panels<E>>) {
    const int count = outliers.count();
    for (int i = 0; i < count; ++i) {
      const E weight = static_cast<E>(outliers.row(panel, i, count)[c]);
      const std::int64_t k = outliers.inputs()[i];
#pragma unroll
      for (int m = 0; m < Each; ++m) {
        const std::int64_t row = first + warp + m * Tile::warps;
        if (row < R) sum[m] = fma(static_cast<E>(in[row * K + k]), weight, sum[m]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < Each; ++m) {
    const std::int64_t row = first + warp + m * Tile::warps;
    if (row < R && n < N) out[row * N + n] = T(sum[m]);
  }
}

/// Products of rows with a packed matrix of RowKernels<device::Cuda>. The kernel reads the packed bytes, which are
/// those of the host, and decodes them tile by tile.
struct RowsProduct {
  template <real T>
  static Bytes packed_bytes(std::int64_t K, std::int64_t N, graph::WeightForm form,
                            std::int64_t outliers = 0) {
    return host::detail::PanelPlaces<T>(K, N, form, outliers).bytes;
  }

  /// Packs on the host's cores, with copies to and from there, and waits for them.
  template <real T>
  static void pack(device::Cuda::Lane& lane, void* packed, const T* w, std::int64_t K,
                   std::int64_t N, Transpose tw, graph::WeightForm form, std::int64_t outliers = 0,
                   std::span<const float> magnitudes = {}) {
    std::vector<T> given(static_cast<std::size_t>(K * N));
    std::vector<std::byte> bytes(packed_bytes<T>(K, N, form, outliers));
    lane.copy(given.data(), w, static_cast<Bytes>(given.size()) * sizeof(T), device::Copy::to_host);
    lane.settle();
    device::Host cores;
    device::Host::Lane own(cores, "pack");
    own.submit([&](device::Host::Lane& work) {
      host::detail::pack_panels(work, bytes.data(),
                                host::detail::GivenMatrix<T>{given.data(), K, N, tw}, form,
                                {outliers, magnitudes});
    });
    own.synchronize();
    lane.copy(packed, bytes.data(), bytes.size(), device::Copy::to_device);
    lane.settle();
  }

  template <real T>
  static Bytes rows_product_workspace(std::int64_t /*R*/, std::int64_t /*K*/, int /*threads*/,
                                      std::int64_t /*outliers*/ = 0) {
    return 0;
  }

  template <real T>
  static void rows_product(device::Cuda::Lane& lane, T* out, const T* in, const void* packed,
                           const T* bias, std::int64_t R, std::int64_t K, std::int64_t N,
                           graph::WeightForm form, void* /*workspace*/) {
    const OutlierPanels<T> outliers(packed, K, N, form);
    with_panels<T>(packed, K, N, form, [&](const auto& panels) {
      if (R <= RowsTile<sum_t<T>, 1>::rows) {
        multiply<T, 1>(lane, out, in, panels, outliers, bias, R, K, N);
      } else {
        multiply<T, 4>(lane, out, in, panels, outliers, bias, R, K, N);
      }
    });
  }

private:
  template <real T, int Each, class Panels>
  static void multiply(device::Cuda::Lane& lane, T* out, const T* in, const Panels& panels,
                       const OutlierPanels<T>& outliers, const T* bias, std::int64_t R,
                       std::int64_t K, std::int64_t N) {
    constexpr std::int64_t rows = RowsTile<sum_t<T>, Each>::rows;
    const std::int64_t tiles = (R + rows - 1) / rows;
    device::launch(lane, "rows_product", &rows_product_kernel<T, Panels, Each>,
                   host::detail::panels_of(N) * tiles, device::cuda_block, 0, out, in, panels,
                   outliers, bias, R, K, N, tiles);
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
