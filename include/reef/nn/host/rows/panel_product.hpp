#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <reef/core/config.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/rows/panels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// The numbers of rows that a tile of a product may have, descending: the sums of 14 rows fit in registers if a vector
/// has 16 lanes.
inline constexpr std::array<std::int64_t, 5> tile_rows{14, 8, 4, 2, 1};

/// The rows [first, first + rows) of a matrix product, whose sums are computed together.
struct Tile {
  std::int64_t first;
  std::int64_t rows;
};

/// Returns tile i of a product of R rows: the tiles, in order, contain each row once; a tile behind the last has 0
/// `rows`.
inline Tile tile_of(std::int64_t R, std::int64_t i) {
  const std::int64_t most = tile_rows[0];
  std::int64_t first = (std::min)(i, R / most) * most;
  for (i -= first / most;; --i) {
    const auto rows =
        std::find_if(tile_rows.begin(), tile_rows.end(), [&](auto m) { return m <= R - first; });
    if (rows == tile_rows.end()) return {first, 0};
    if (i == 0) return {first, *rows};
    first += *rows;
  }
}

/// Returns the number of tiles into which the R rows of a product are divided.
inline std::int64_t tiles_of(std::int64_t R) {
  std::int64_t i = R / tile_rows[0];
  while (tile_of(R, i).rows > 0) ++i;
  return i;
}

/// The memory of a product tile's sums, in rows of 32: their first values are at `from`, with rows `ld_from` apart,
/// their results at `to`, with rows `ld_to` apart. If ld_from is 0, all rows have the same first values.
template <class E>
struct TileSums {
  const E* from;
  std::int64_t ld_from;
  E* to;
  std::int64_t ld_to;
};

/// A function that adds the product of a tile, M rows of K numbers stored as (K, M), and a panel of a packed matrix (K,
/// 32), to sums (M, 32), each sum by fma in ascending order. M is one of tile_rows; as many columns are computed at
/// once as fit in registers beside M rows. `fetches`: the panel comes from memory, and is fetched ahead of its use: few
/// rows take less time than a processor by itself takes to fetch it.
template <bool fetches>
struct TileProduct {
  template <class V, class E>
  void run(const TileSums<E>& sums, const E* in, std::int64_t M, const E* numbers,
           std::int64_t K) const {
    rows<V>(std::make_index_sequence<tile_rows.size()>(), sums, in, M, numbers, K);
  }

private:
  template <class V, class E, std::size_t... i>
  static void rows(std::index_sequence<i...> /*of tile_rows*/, const TileSums<E>& sums, const E* in,
                   std::int64_t M, const E* numbers, std::int64_t K) {
    (void)((M == tile_rows[i] &&
            (columns<V, static_cast<std::size_t>(tile_rows[i])>(sums, in, numbers, K), true)) ||
           ...);
  }

  // Computes all columns for M rows. Of 32 registers, 28 hold sums, beside two columns and a row; of 16 registers, 12.
  template <class V, std::size_t M, class E>
  static void columns(const TileSums<E>& sums, const E* in, const E* numbers, std::int64_t K) {
    constexpr std::size_t registers = V::width == 16 ? 28 : 12;
    constexpr auto vectors = static_cast<std::size_t>(panel_columns / V::width);
    constexpr std::size_t at_once = M * 2 > registers ? 1 : M * 4 > registers ? 2 : 4;
    constexpr std::size_t N = at_once < vectors ? at_once : vectors;
    for (std::size_t v = 0; v < vectors; v += N) {
      const std::int64_t c = static_cast<std::int64_t>(v) * V::width;
      tile<V, M, N>(std::make_index_sequence<M * N>(), std::make_index_sequence<N>(),
                    {sums.from + c, sums.ld_from, sums.to + c, sums.ld_to}, in, numbers + c, K);
    }
  }

  template <class V, std::size_t M, std::size_t N, std::size_t... i, std::size_t... n, class E>
  static void tile(std::index_sequence<i...> /*sums*/, std::index_sequence<n...> /*vectors*/,
                   const TileSums<E>& places, const E* in, const E* numbers, std::int64_t K) {
    V sums[M * N] = {V::load(places.from + at<V, N>(i, places.ld_from))...};
    for (std::int64_t k = 0; k < K; ++k, in += M, numbers += panel_columns) {
      const V columns[N] = {V::load(numbers + static_cast<std::int64_t>(n) * V::width)...};
      if constexpr (fetches) {
        (__builtin_prefetch(numbers + rows_ahead * panel_columns + static_cast<std::int64_t>(n) * V::width), ...);
      }
      ((sums[i] = fma(V(in[i / N]), columns[i % N], sums[i])), ...);
    }
    (sums[i].store(places.to + at<V, N>(i, places.ld_to)), ...);
  }

  template <class V, std::size_t N>
  static std::int64_t at(std::size_t i, std::int64_t ld) {
    return static_cast<std::int64_t>(i / N) * ld + static_cast<std::int64_t>(i % N) * V::width;
  }
};

/// The largest number of panels (32 columns each) that one row is multiplied with at once.
inline constexpr std::int64_t panels_at_once = 4;

/// A function that adds the products of one row of K numbers with P panels (32 columns each), from the index `panel`
/// on, to sums (P, 32). A sum waits for its own last addition, so the sums of several panels are computed at once; P is
/// at most panels_at_once.
struct RowProduct {
  template <class V, class E, class Panels>
  void run(E* sums, const E* in, const Panels* panels, std::int64_t panel, std::int64_t P,
           std::int64_t K) const {
    constexpr std::int64_t most = V::width == 16  ? 4
                                  : V::width == 8 ? 2
                                                  : 1;  // the number of panels whose sums fit in registers
    for (std::int64_t p = 0; p < P;) {
      E* const to = sums + p * panel_columns;
      if (most >= 4 && P - p >= 4) {
        p += group<V, (most >= 4 ? 4 : 1)>(to, in, panels, panel + p, K);
      } else if (most >= 2 && P - p >= 2) {
        p += group<V, (most >= 2 ? 2 : 1)>(to, in, panels, panel + p, K);
      } else {
        p += group<V, 1>(to, in, panels, panel + p, K);
      }
    }
  }

private:
  template <class V, std::int64_t P, class E, class Panels>
  static std::int64_t group(E* sums, const E* in, const Panels* panels, std::int64_t panel,
                            std::int64_t K) {
    constexpr auto vectors = static_cast<std::size_t>(P * panel_columns / V::width);
    chains<V>(std::make_index_sequence<vectors>(), std::make_index_sequence<P>(),
              std::make_index_sequence<8>(), sums, in, panels, panel, K);
    return P;
  }

  template <class V, std::size_t... i, std::size_t... p, std::size_t... k, class E, class Panels>
  static void chains(std::index_sequence<i...> /*sums*/, std::index_sequence<p...> /*panels*/,
                     std::index_sequence<k...> /*at once*/, E* to, const E* in,
                     const Panels* panels, std::int64_t panel, std::int64_t K) {
    using Block = decltype(panels->block(0, 0));
    V sums[sizeof...(i)] = {V::load(to + static_cast<std::int64_t>(i) * V::width)...};
    for (std::int64_t first = 0; first < K; first += panel_block, in += panel_block) {
      const Block blocks[sizeof...(p)] = {
          panels->block(panel + static_cast<std::int64_t>(p), first)...};
      const std::int64_t depth = (std::min)(panel_block, K - first);
      constexpr std::int64_t unrolled = sizeof...(k);
      std::int64_t done = 0;
      for (; done + unrolled <= depth; done += unrolled) {
        (blocks[p].fetch(done), ...);
        (add(std::index_sequence<i...>(), sums, in + done, blocks, done, k), ...);
      }
      for (std::size_t left = 0; done + static_cast<std::int64_t>(left) < depth; ++left) {
        add(std::index_sequence<i...>(), sums, in + done, blocks, done, left);
      }
    }
    (sums[i].store(to + static_cast<std::int64_t>(i) * V::width), ...);
  }

  // Adds in[at] times row k + at of each block to the sums.
  template <std::size_t... i, class V, class E, class Block>
  REEF_ALWAYS_INLINE static void add(std::index_sequence<i...> /*sums*/, V* sums, const E* in,
                                     const Block* blocks, std::int64_t k, std::size_t at) {
    // The number of vectors in a row of a panel.
    constexpr auto vectors = static_cast<std::size_t>(panel_columns / V::width);
    const V x(in[at]);
    ((sums[i] = fma(
          x,
          blocks[i / vectors].template load<V>(k, static_cast<std::int64_t>(at),
                                               static_cast<std::int64_t>(i % vectors) * V::width),
          sums[i])),
     ...);
  }
};

/// A function that decodes `count` rows of a panel (32 columns) of a packed matrix, from row k on, to `to` (count, 32);
/// k is a multiple of 64.
struct DecodePanel {
  template <class V, class E, class Panels>
  void run(E* to, const Panels* panels, std::int64_t panel, std::int64_t k,
           std::int64_t count) const {
    for (std::int64_t done = 0; done < count; done += panel_block) {
      const auto block = panels->block(panel, k + done);
      for (std::int64_t i = 0; i < (std::min)(panel_block, count - done);
           ++i, to += panel_columns) {
        if (i % 8 == 0) block.fetch(i);
        for (std::int64_t c = 0; c < panel_columns; c += V::width)
          block.template load<V>(i / 8 * 8, i % 8, c).store(to + c);
      }
    }
  }
};

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
