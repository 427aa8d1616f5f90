#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/host/rows/packing.hpp>
#include <reef/nn/host/rows/panels.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// The numbers of rows that a tile may have, descending: the sums of 14 rows fit in registers with 16 lanes a vector.
inline constexpr std::array<std::int64_t, 5> tile_rows{14, 8, 4, 2, 1};

/// Calls tile(first, rows) for tiles that together are R rows, in order.
template <class Tile>
void each_tile(std::int64_t R, const Tile& tile) {
  for (std::int64_t first = 0; first < R;) {
    const std::int64_t rows = *std::find_if(tile_rows.begin(), tile_rows.end(), [&](auto m) { return m <= R - first; });
    tile(first, rows);
    first += rows;
  }
}

/// Writes to (K, M) = from (M, K)^T, where rows of `from` are ld apart: a tile's rows, side by side.
template <class E, class S>
void pack_tile(device::Host::Lane& lane, E* to, const S* from, std::int64_t ld, std::int64_t M, std::int64_t K) {
  device::for_each_block(lane, K, 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = 0; m < M; ++m) {
      for (std::int64_t k = begin; k < end; ++k) to[k * M + m] = static_cast<E>(from[m * ld + k]);
    }
  });
}

/// A function: sums (M, 32) = in (count, M)^T panel (k to k + count, 32) + sums, each a chain of fma over k ascending. M
/// is one of tile_rows, or 1 for panels to be decoded. `k` is a multiple of 64; rows of sums are ld apart. It computes as
/// many columns at once as fit in registers beside M rows.
struct PanelProduct {
  template <class V, class E, class Panels>
  void run(E* sums, std::int64_t ld, const E* in, std::int64_t M, const Panels* panels, std::int64_t panel,
           std::int64_t k, std::int64_t count) const {
    for (std::int64_t done = 0; done < count; done += panel_block) {
      const auto block = panels->block(panel, k + done);
      const std::int64_t depth = (std::min)(panel_block, count - done);
      if constexpr (std::is_same_v<Panels, NumberPanels<E, E>>) {
        rows<V>(std::make_index_sequence<tile_rows.size()>(), sums, ld, in + done * M, M, block, depth);
      } else {
        columns<V, 1>(sums, ld, in + done, block, depth);
      }
    }
  }

private:
  template <class V, class E, class Block, std::size_t... i>
  static void rows(std::index_sequence<i...> /*of tile_rows*/, E* sums, std::int64_t ld, const E* in, std::int64_t M,
                   const Block& block, std::int64_t K) {
    (void)((M == tile_rows[i] && (columns<V, static_cast<std::size_t>(tile_rows[i])>(sums, ld, in, block, K), true)) ||
           ...);
  }

  // Computes the columns for M rows. Registers: 28 sums fit beside two columns and a row with 32 registers, 12 with 16.
  template <class V, std::size_t M, class E, class Block>
  static void columns(E* sums, std::int64_t ld, const E* in, const Block& block, std::int64_t K) {
    constexpr std::size_t registers = V::width == 16 ? 28 : 12;
    constexpr auto vectors = static_cast<std::size_t>(panel_columns / V::width);
    constexpr std::size_t at_once = M >= registers ? 1 : M * 2 > registers ? 1 : M * 4 > registers ? 2 : 4;
    constexpr std::size_t N = at_once < vectors ? at_once : vectors;
    for (std::size_t v = 0; v < vectors; v += N) {
      const std::int64_t c = static_cast<std::int64_t>(v) * V::width;
      tile<V, N>(std::make_index_sequence<M * N>(), std::make_index_sequence<N>(), sums + c, ld, in,
                 static_cast<std::int64_t>(M), block, c, K);
    }
  }

  template <class V, std::size_t N, std::size_t... i, std::size_t... n, class E, class Block>
  static void tile(std::index_sequence<i...> /*sums*/, std::index_sequence<n...> /*vectors*/, E* to, std::int64_t ld,
                   const E* in, std::int64_t M, const Block& block, std::int64_t c, std::int64_t K) {
    V sums[sizeof...(i)] = {V::load(to + at<V, N>(i, ld))...};
    for (std::int64_t k = 0; k < K; ++k, in += M) {
      const V columns[N] = {block.template load<V>(k, c + static_cast<std::int64_t>(n) * V::width)...};
      ((sums[i] = fma(V(in[i / N]), columns[i % N], sums[i])), ...);
    }
    (sums[i].store(to + at<V, N>(i, ld)), ...);
  }

  template <class V, std::size_t N>
  static std::int64_t at(std::size_t i, std::int64_t ld) {
    return static_cast<std::int64_t>(i / N) * ld + static_cast<std::int64_t>(i % N) * V::width;
  }
};

/// A function that decodes the numbers of a panel from k on to `to` (count, 32). `k` is a multiple of 64.
struct DecodePanel {
  template <class V, class E, class Panels>
  void run(E* to, const Panels* panels, std::int64_t panel, std::int64_t k, std::int64_t count) const {
    for (std::int64_t done = 0; done < count; done += panel_block) {
      const auto block = panels->block(panel, k + done);
      for (std::int64_t i = 0; i < (std::min)(panel_block, count - done); ++i, to += panel_columns) {
        for (std::int64_t c = 0; c < panel_columns; c += V::width) block.template load<V>(i, c).store(to + c);
      }
    }
  }
};

}  // namespace detail

/// Products of rows with a packed matrix. A task is one panel: for each block of k it multiplies all rows, a tile at a
/// time, so that the block of the panel is read from memory, and decoded, once.
struct RowsProduct {
  template <real T>
  static Bytes packed_bytes(std::int64_t K, std::int64_t N, graph::WeightForm form) {
    return detail::PanelPlaces<T>(K, N, form).bytes;
  }

  template <real T>
  static void pack(device::Host::Lane& lane, void* packed, const T* w, std::int64_t K, std::int64_t N, Transpose tw,
                   graph::WeightForm form) {
    detail::pack_panels(lane, packed, detail::GivenMatrix<T>{w, K, N, tw}, form);
  }

  template <real T>
  static Bytes rows_product_workspace(std::int64_t R, std::int64_t K, int threads) {
    using E = sum_t<T>;
    const Bytes tiles = round_up(static_cast<Bytes>(R * K) * sizeof(E), 64);
    const Bytes sums = static_cast<Bytes>(threads) * slot<E>(R);
    return tiles + sums;
  }

  template <real T>
  static void rows_product(device::Host::Lane& lane, T* out, const T* in, const void* packed, const T* bias,
                           std::int64_t R, std::int64_t K, std::int64_t N, graph::WeightForm form, void* workspace) {
    detail::with_panels<T>(packed, K, N, form, [&](const auto& panels) {
      multiply<T>(lane, out, in, panels, bias, R, K, N, workspace);
    });
  }

private:
  template <class E>
  using Decoded = detail::NumberPanels<E, E>;
  template <class E, class Panels>
  static constexpr bool is_plain = std::is_same_v<Panels, Decoded<E>>;

  static bool is_one_tile(std::int64_t R) {
    return std::find(detail::tile_rows.begin(), detail::tile_rows.end(), R) != detail::tile_rows.end();
  }

  static constexpr std::int64_t depth = 256;  // the k of a block: with 32 columns 32 KiB of floats

  /// Returns the scratch bytes of a thread: the sums of a panel, and a decoded block of it.
  template <class E>
  static Bytes slot(std::int64_t R) {
    return static_cast<Bytes>((R + depth) * detail::panel_columns) * sizeof(E);
  }

  template <real T, class Panels>
  static void multiply(device::Host::Lane& lane, T* out, const T* in, const Panels& panels, const T* bias,
                       std::int64_t R, std::int64_t K, std::int64_t N, void* workspace) {
    using E = sum_t<T>;
    // A tile has its rows side by side, from element K of its first row on; one row lies so as it is.
    E* const rows = static_cast<E*>(workspace);
    const E* from = rows;
    if constexpr (std::is_same_v<T, E>) {
      if (R == 1) from = in;
    }
    if (from == rows) {
      detail::each_tile(R, [&](std::int64_t first, std::int64_t m) {
        detail::pack_tile(lane, rows + first * K, in + first * K, K, m, K);
      });
    }
    std::byte* const sums = static_cast<std::byte*>(workspace) + round_up(static_cast<Bytes>(R * K) * sizeof(E), 64);
    device::for_each_in_slots(lane, detail::panels_of(N), [&](std::int64_t slot_of, std::int64_t panel) {
      constexpr std::int64_t ld = detail::panel_columns;
      E* const own = reinterpret_cast<E*>(sums + static_cast<Bytes>(slot_of) * slot<E>(R));
      const std::int64_t n0 = panel * ld;
      const std::int64_t columns = (std::min)(ld, N - n0);
      for (std::int64_t r = 0; r < R; ++r) {
        for (std::int64_t n = 0; n < ld; ++n) {
          own[r * ld + n] = bias != nullptr && n < columns ? static_cast<E>(bias[n0 + n]) : E(0);
        }
      }
      // What is not decoded passes over the whole panel at once for one tile; what is decoded, for one row.
      const bool straight = R == 1 || (is_plain<E, Panels> && is_one_tile(R));
      const std::int64_t block = straight ? K : depth;
      for (std::int64_t k = 0; k < K; k += block) {
        const std::int64_t count = (std::min)(block, K - k);
        const auto multiply_by = [&](const auto* numbers, std::int64_t panel_of, std::int64_t k_of) {
          detail::each_tile(R, [&](std::int64_t first, std::int64_t m) {
            device::run_vectors<E>(detail::PanelProduct{}, own + first * ld, ld, from + first * K + k * m, m, numbers,
                                   panel_of, k_of, count);
          });
        };
        if (straight || is_plain<E, Panels>) {
          multiply_by(&panels, panel, k);
        } else {
          E* const decoded = own + R * ld;
          device::run_vectors<E>(detail::DecodePanel{}, decoded, &panels, panel, k, count);
          const Decoded<E> numbers(decoded, count, ld);
          multiply_by(&numbers, 0, 0);
        }
      }
      for (std::int64_t r = 0; r < R; ++r) {
        for (std::int64_t n = 0; n < columns; ++n) out[r * N + n0 + n] = T(own[r * ld + n]);
      }
    });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
