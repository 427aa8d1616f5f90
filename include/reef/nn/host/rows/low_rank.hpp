#pragma once

#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/host/rows/norms.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// A function that adds the low-rank update scale (in A^T) B^T of one row to `out`: in has K numbers, out N, A is
/// (rank, K), B is (N, rank), and h has room for `rank` sums.
struct LowRankRow {
  template <class V, class S, class E>
  void run(S* out, const S* in, const S* a, const S* b, E* h, std::int64_t K, std::int64_t N, std::int64_t rank,
           E scale) const {
    for (std::int64_t j = 0; j < rank; ++j) {
      SixteenSums<V> sums;
      sums.over(K, [&](const V& sum, std::int64_t i, std::int64_t n) {
        return fma(V::load(in + i, n), V::load(a + j * K + i, n), sum);
      });
      h[j] = sums.total();
    }
    for (std::int64_t n = 0; n < N; ++n) {
      SixteenSums<V> sums;
      sums.over(rank, [&](const V& sum, std::int64_t i, std::int64_t left) {
        return fma(V::load(h + i, left), V::load(b + n * rank + i, left), sum);
      });
      out[n] = S(static_cast<E>(out[n]) + product(scale, sums.total()));
    }
  }
};

}  // namespace detail

/// The kernel of the low-rank update (LoRA) of a product of rows; a task is one row.
struct RowsLowRank {
  template <real T>
  static Bytes rows_low_rank_workspace(std::int64_t /*R*/, std::int64_t rank, int threads) {
    return static_cast<Bytes>(threads) * detail::Scratch::bytes<sum_t<T>>(rank);
  }

  template <real T>
  static void rows_low_rank(device::Host::Lane& lane, T* out, const T* in, const T* a, const T* b, std::int64_t R,
                            std::int64_t K, std::int64_t N, std::int64_t rank, sum_t<T> scale, void* workspace) {
    using E = sum_t<T>;
    device::for_each_in_slots(lane, R, [&](std::int64_t slot, std::int64_t r) {
      E* const h = detail::Scratch::of(workspace, slot, detail::Scratch::bytes<E>(rank)).template take<E>(rank);
      device::run_vectors<T>(detail::LowRankRow{}, out + r * N, in + r * K, a, b, h, K, N, rank, scale);
    });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
