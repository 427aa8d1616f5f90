#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/host/rows/dynamic_bytes.hpp>
#include <reef/nn/host/rows/outliers.hpp>
#include <reef/nn/host/rows/packing.hpp>
#include <reef/nn/host/rows/panel_product.hpp>
#include <reef/nn/host/rows/panels.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// Writes the M rows of a tile (rows that are multiplied together) side by side: a matrix (K, M) to `to`, from M rows
/// of K numbers that are `ld` apart.
template <class E, class S>
void pack_tile(E* to, const S* from, std::int64_t ld, std::int64_t M, std::int64_t K) {
  // The number of k at once, so that the written lines stay in the first-level cache.
  constexpr std::int64_t at_once = 16;
  for (std::int64_t begin = 0; begin < K; begin += at_once) {
    const std::int64_t end = (std::min)(K, begin + at_once);
    for (std::int64_t m = 0; m < M; ++m) {
      for (std::int64_t k = begin; k < end; ++k) to[k * M + m] = static_cast<E>(from[m * ld + k]);
    }
  }
}

}  // namespace detail

/// The kernels of products of rows (tokens) with a packed matrix.
struct RowsProduct {
  template <real T>
  static Bytes packed_bytes(std::int64_t K, std::int64_t N, graph::WeightForm form, std::int64_t outliers = 0) {
    return detail::PanelPlaces<T>(K, N, form, outliers).bytes;
  }

  template <real T>
  static void pack(device::Host::Lane& lane, void* packed, const T* w, std::int64_t K, std::int64_t N, Transpose tw,
                   graph::WeightForm form, std::int64_t outliers = 0, std::span<const float> magnitudes = {}) {
    detail::pack_panels(lane, packed, detail::GivenMatrix<T>{w, K, N, tw}, form, {outliers, magnitudes});
  }

  template <real T>
  static Bytes rows_product_workspace(std::int64_t R, std::int64_t K, int threads, std::int64_t outliers = 0) {
    using E = sum_t<T>;
    const Bytes sums = static_cast<Bytes>(threads) * slot<E>(R);
    return tiles_bytes<E>(R, K + outliers) + sums;
  }

  template <real T>
  static void rows_product(device::Host::Lane& lane, T* out, const T* in, const void* packed, const T* bias,
                           std::int64_t R, std::int64_t K, std::int64_t N, graph::WeightForm form, void* workspace) {
    const detail::OutlierPanels<T> outliers(packed, K, N, form);
    detail::with_panels<T>(packed, K, N, form, [&](const auto& panels) {
      if (R == 1) {
        multiply_row<T>(lane, out, in, panels, outliers, bias, K, N, workspace);
      } else {
        multiply_rows<T>(lane, out, in, panels, outliers, bias, R, K, N, workspace);
      }
    });
  }

private:
  template <class E, class Panels>
  static constexpr bool is_plain = std::is_same_v<Panels, detail::NumberPanels<E, E>>;

  template <class E, class Panels>
  static constexpr bool may_have_outliers = std::is_same_v<Panels, detail::Int8Panels<E>>;

  static constexpr std::int64_t depth = 256;  // the rows of a block of a panel: with 32 columns, 32 KiB of floats

  /// Returns the scratch bytes of a thread for R rows of a product: the sums of a panel (32 columns), and one decoded
  /// block of the panel.
  template <class E>
  static Bytes slot(std::int64_t R) {
    return static_cast<Bytes>((R + depth) * detail::panel_columns) * sizeof(E);
  }

  /// Returns the bytes of R rows of K numbers each, arranged as tiles.
  template <class E>
  static Bytes tiles_bytes(std::int64_t R, std::int64_t K) {
    return round_up(static_cast<Bytes>(R * K) * sizeof(E), 64);
  }

  /// Multiplies one row with a packed matrix; a task is up to four panels (32 columns each), which are decoded while
  /// they are read.
  template <real T, class Panels>
  static void multiply_row(device::Host::Lane& lane, T* out, const T* in, const Panels& panels,
                           const detail::OutlierPanels<T>& outliers, const T* bias, std::int64_t K, std::int64_t N,
                           void* workspace) {
    using E = sum_t<T>;
    const E* row = nullptr;
    if constexpr (std::is_same_v<T, E>) {
      row = in;
    } else {
      detail::pack_tile(static_cast<E*>(workspace), in, K, 1, K);
      row = static_cast<const E*>(workspace);
    }
    E* const apart = static_cast<E*>(workspace) + K;  // what the outliers multiply
    outliers.gather(apart, in, K, 1);
    const std::int64_t all = detail::panels_of(N);
    // Decoding takes longer than reading, so several panels that need decoding are computed at once; other panels are
    // read fastest one by one.
    constexpr bool decodes =
        !is_plain<E, Panels> && !std::is_same_v<Panels, detail::NumberPanels<E, Bfloat16>>;
    const std::int64_t together = !decodes || all < 4 * lane.threads() ? 1
                                  : all < 8 * lane.threads()           ? 2
                                                                       : detail::panels_at_once;
    device::for_each_in_slots(lane, (all + together - 1) / together, [&](std::int64_t /*slot*/, std::int64_t task) {
      const std::int64_t panel = task * together;
      const std::int64_t n0 = panel * detail::panel_columns;
      const std::int64_t count = (std::min)(together, all - panel);
      const std::int64_t columns = (std::min)(count * detail::panel_columns, N - n0);
      std::array<E, detail::panels_at_once * detail::panel_columns> sums{};
      for (std::int64_t n = 0; bias != nullptr && n < columns; ++n)
        sums[static_cast<std::size_t>(n)] = static_cast<E>(bias[n0 + n]);
      detail::row_times_panels(sums.data(), row, panels, panel, count, K);
      if constexpr (may_have_outliers<E, Panels>) {
        if (outliers.count > 0) {
          detail::row_times_panels(sums.data(), apart, outliers.panels, panel, count, outliers.count);
        }
      }
      for (std::int64_t n = 0; n < columns; ++n) out[n0 + n] = T(sums[static_cast<std::size_t>(n)]);
    });
  }

  /// Multiplies several rows with a packed matrix; a task is a panel (32 columns). Each block of the panel is read from
  /// memory, and decoded, once, and multiplied with all rows, a tile at a time.
  template <real T, class Panels>
  static void multiply_rows(device::Host::Lane& lane, T* out, const T* in, const Panels& panels,
                            const detail::OutlierPanels<T>& outliers, const T* bias, std::int64_t R, std::int64_t K,
                            std::int64_t N, void* workspace) {
    using E = sum_t<T>;
    // The rows of all tiles; those of a tile, which begins with row `first`, are side by side from rows + first * K on.
    // The numbers that outliers multiply lie behind all of them, in the same order.
    E* const rows = static_cast<E*>(workspace);
    E* const apart = rows + R * K;
    const std::int64_t tiles = detail::tiles_of(R);
    lane.parallel(tiles, [&](std::int64_t i) {
      const auto [first, m] = detail::tile_of(R, i);
      detail::pack_tile(rows + first * K, in + first * K, K, m, K);
      outliers.gather(apart + first * outliers.count, in + first * K, K, m);
    });
    std::byte* const sums = static_cast<std::byte*>(workspace) + tiles_bytes<E>(R, K + outliers.count);
    device::for_each_in_slots(lane, detail::panels_of(N), [&](std::int64_t slot_of, std::int64_t panel) {
      constexpr std::int64_t ld = detail::panel_columns;
      E* const own = reinterpret_cast<E*>(sums + static_cast<Bytes>(slot_of) * slot<E>(R));
      E* const decoded = own + R * ld;
      const std::int64_t n0 = panel * ld;
      const std::int64_t columns = (std::min)(ld, N - n0);
      std::array<E, static_cast<std::size_t>(ld)> begin{};
      for (std::int64_t n = 0; bias != nullptr && n < columns; ++n)
        begin[static_cast<std::size_t>(n)] = static_cast<E>(bias[n0 + n]);
      // The sums of the last tile are written directly to the result if they need no rounding.
      E* last = own;
      std::int64_t ld_last = ld;
      if constexpr (std::is_same_v<T, E>) {
        if (columns == ld) {
          last = out + n0;
          ld_last = N;
        }
      }
      // Adds the products with `inputs` numbers of each row, `all` of them in tiles.
      const auto add = [&](const auto& part, const E* all, std::int64_t inputs, bool is_first, bool is_last) {
        constexpr bool plain = is_plain<E, std::remove_cvref_t<decltype(part)>>;
        // A single tile passes over the whole panel at once, since no other tile reads its blocks again.
        const std::int64_t block = plain && tiles == 1 ? inputs : depth;
        for (std::int64_t k = 0; k < inputs; k += block) {
          const std::int64_t count = (std::min)(block, inputs - k);
          const E* numbers = decoded;
          if constexpr (plain) {
            numbers = part.block(panel, k).at;
          } else {
            detail::decode_panel(decoded, part, panel, k, count);
          }
          const bool begins = is_first && k == 0;
          const bool ends = is_last && k + count == inputs;
          for (std::int64_t i = 0; i < tiles; ++i) {
            const auto [first, m] = detail::tile_of(R, i);
            const detail::TileSums<E> places{begins ? begin.data() : own + first * ld, begins ? 0 : ld,
                                             ends ? last + first * ld_last : own + first * ld, ends ? ld_last : ld};
            const E* const in_tile = all + first * inputs + k * m;
            device::run_vectors<E>(detail::TileProduct<plain>{}, places, in_tile, m, numbers, count);
          }
        }
      };
      add(panels, rows, K, true, outliers.count == 0);
      if constexpr (may_have_outliers<E, Panels>) add(outliers.panels, apart, outliers.count, false, true);
      if (last != own) return;
      for (std::int64_t r = 0; r < R; ++r) {
        for (std::int64_t n = 0; n < columns; ++n) out[r * N + n0 + n] = T(own[r * ld + n]);
      }
    });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
