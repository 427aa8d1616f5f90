#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/nn/host/detail/gemm_here.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// The partition of an (m, n) matrix into tiles: `across` strips of rows by `along` strips of columns.
struct GemmGrid {
  std::int64_t m, n;
  std::int64_t across, along;

  // Returns the grid of a product: two tiles if it takes some 50 us or more, four from half a millisecond on, then
  // more. No tile is small or narrow, since each packs its share of A and B again; if A is to be transposed, tiles are
  // strips of rows. The grid depends on the shape alone.
  static GemmGrid of(Transpose ta, std::int64_t m, std::int64_t n, std::int64_t k) {
    const double flops =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    const auto wanted =
        static_cast<std::int64_t>(flops < 8e6   ? 1
                                  : flops < 1e8 ? 2
                                                : std::clamp(flops / 5e8, 4.0, 64.0));
    GemmGrid grid{m, n, 1, 1};
    while (2 * grid.tiles() <= wanted) {
      const std::int64_t rows = m / grid.across;
      const std::int64_t columns = n / grid.along;
      const std::int64_t least = grid.tiles() == 1 ? 4096 : 32768;  // elements of C in a tile
      if (rows * columns < 2 * least || (std::max)(rows, columns) < 64) break;
      const bool across = rows >= columns || rows >= 512 || (ta == Transpose::yes && rows >= 128);
      (across ? grid.across : grid.along) *= 2;
    }
    return grid;
  }

  [[nodiscard]] std::int64_t tiles() const { return across * along; }
  [[nodiscard]] std::int64_t row(std::int64_t strip) const { return cut(m, across, strip, 16); }
  [[nodiscard]] std::int64_t column(std::int64_t strip) const { return cut(n, along, strip, 16); }

  /// Returns the scratch bytes of the product's largest tile, which is the last.
  template <real T>
  [[nodiscard]] Bytes scratch_bytes(Transpose ta, Transpose tb, std::int64_t k) const {
    return gemm_here_bytes<T>(ta, tb, m - row(across - 1), n - column(along - 1), k);
  }

private:
  // Returns the first row or column of a strip, a multiple of `unit`; the last strip has the rest, at least one unit.
  static std::int64_t cut(std::int64_t size, std::int64_t strips, std::int64_t strip,
                          std::int64_t unit) {
    return strip == strips ? size : size / unit * strip / strips * unit;
  }
};

/// Computes a matrix product in tiles on the thread pool, and calls finished(row0, row1, column0, column1) after each
/// tile, while the tile is in the cache.
template <real T, class C, class Finished>
void gemm_tiles(device::Host::Lane& lane, Transpose ta, Transpose tb, std::int64_t m,
                std::int64_t n, std::int64_t k, sum_t<T> alpha, const T* a, std::int64_t lda,
                const T* b, std::int64_t ldb, sum_t<T> beta, C* c, std::int64_t ldc,
                void* workspace, const Finished& finished) {
  if (m == 0 || n == 0) return;
  const GemmGrid grid = GemmGrid::of(ta, m, n, k);
  const Bytes each = grid.scratch_bytes<T>(ta, tb, k);
  device::for_each_in_slots(lane, grid.tiles(), [&](std::int64_t slot, std::int64_t tile) {
    const std::int64_t row0 = grid.row(tile / grid.along);
    const std::int64_t row1 = grid.row(tile / grid.along + 1);
    const std::int64_t column0 = grid.column(tile % grid.along);
    const std::int64_t column1 = grid.column(tile % grid.along + 1);
    gemm_here(ta, tb, row1 - row0, column1 - column0, k, alpha,
              ta == Transpose::no ? a + row0 * lda : a + row0, lda,
              tb == Transpose::no ? b + column0 : b + column0 * ldb, ldb, beta,
              c + row0 * ldc + column0, ldc, Scratch::of(workspace, slot, each));
    finished(row0, row1, column0, column1);
  });
}

}  // namespace detail

/// The kernels of matrix products, in tiles that the threads of the pool compute. The workspace holds blocks of the
/// operands, packed by the threads or by oneDNN.
struct Gemm {
  template <real T>
  static Bytes gemm_workspace(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n,
                              std::int64_t k, int threads) {
    if (m == 0 || n == 0) return 0;
    const auto grid = detail::GemmGrid::of(ta, m, n, k);
    return static_cast<Bytes>(std::min<std::int64_t>(threads, grid.tiles())) *
           grid.scratch_bytes<T>(ta, tb, k);
  }

  template <real T, class C>
  static void gemm(device::Host::Lane& lane, Transpose ta, Transpose tb, std::int64_t m,
                   std::int64_t n, std::int64_t k, sum_t<T> alpha, const T* a, std::int64_t lda,
                   const T* b, std::int64_t ldb, sum_t<T> beta, C* c, std::int64_t ldc,
                   void* workspace) {
    detail::gemm_tiles(lane, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, workspace,
                       [](auto...) {});
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
