#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <reef/core/element.hpp>
#include <reef/core/random.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/detail/alibi_slope.hpp>
#include <reef/nn/host/detail/causal_softmax.hpp>
#include <reef/nn/host/detail/copy_rows.hpp>
#include <reef/nn/host/detail/gemm_here.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/host/dropout.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

/// Causal attention of several heads; keys and values may have fewer heads, each read by a group of query heads, and
/// may be limited to a window. A task is one head of a batch row (in backward, one of keys and values); it runs over
/// tiles of 64 query rows, whose scores for the keys up to their own are a strip of (64, t) in the workspace. Masked
/// keys beyond the tile are never computed, and no (T, T) matrix is stored.
///
/// For bf16, a head's operands are widened in the workspace, and its results are rounded once.
struct Attention {
  template <real T>
  static Bytes attention_forward_workspace(std::int64_t B, std::int64_t T_, std::int64_t C,
                                           std::int64_t H, int threads) {
    return grouped_attention_forward_workspace<T>(B, T_, H, C / H, 0, threads);
  }

  template <real T>
  static void attention_forward(device::Host::Lane& lane, T* out, sum_t<T>* lse, const T* qkv,
                                std::int64_t B, std::int64_t T_, std::int64_t C, std::int64_t H,
                                void* workspace, float rate = 0.0F, DrawKey key = {}) {
    forward<T>(lane, out, lse, {qkv, qkv + C, qkv + 2 * C, 3 * C, 3 * C}, {B, T_, H, H, C / H, 0, false},
               workspace, rate, key);
  }

  template <real T>
  static Bytes attention_backward_workspace(std::int64_t B, std::int64_t T_, std::int64_t C,
                                            std::int64_t H, int threads) {
    return grouped_attention_backward_workspace<T>(B, T_, H, C / H, 0, threads);
  }

  template <real T>
  static void attention_backward(device::Host::Lane& lane, T* d_qkv, const T* d_out, const T* qkv,
                                 const T* out, const sum_t<T>* lse, std::int64_t B, std::int64_t T_,
                                 std::int64_t C, std::int64_t H, void* workspace, float rate = 0.0F,
                                 DrawKey key = {}) {
    backward<T>(lane, {d_qkv, d_qkv + C, d_qkv + 2 * C, 3 * C, 3 * C}, d_out,
                {qkv, qkv + C, qkv + 2 * C, 3 * C, 3 * C}, out, lse, {B, T_, H, H, C / H, 0, false},
                workspace, rate, key);
  }

  template <real T>
  static Bytes grouped_attention_forward_workspace(std::int64_t /*B*/, std::int64_t T_,
                                                   std::int64_t /*H*/, std::int64_t D,
                                                   std::int64_t window, int threads) {
    return static_cast<Bytes>(threads) * forward_slot<T>(T_, D, window);
  }

  template <real T>
  static void grouped_attention_forward(device::Host::Lane& lane, T* out, sum_t<T>* lse, const T* q,
                                        const T* k, const T* v, std::int64_t B, std::int64_t T_,
                                        std::int64_t H, std::int64_t K, std::int64_t D,
                                        std::int64_t window, bool alibi, void* workspace, float rate,
                                        DrawKey key) {
    forward<T>(lane, out, lse, {q, k, v, H * D, K * D}, {B, T_, H, K, D, window, alibi}, workspace, rate,
               key);
  }

  template <real T>
  static Bytes grouped_attention_backward_workspace(std::int64_t /*B*/, std::int64_t T_,
                                                    std::int64_t /*H*/, std::int64_t D,
                                                    std::int64_t window, int threads) {
    return static_cast<Bytes>(threads) * backward_slot<T>(T_, D, window);
  }

  template <real T>
  static void grouped_attention_backward(device::Host::Lane& lane, T* d_q, T* d_k, T* d_v,
                                         const T* d_out, const T* q, const T* k, const T* v,
                                         const T* out, const sum_t<T>* lse, std::int64_t B,
                                         std::int64_t T_, std::int64_t H, std::int64_t K,
                                         std::int64_t D, std::int64_t window, bool alibi,
                                         void* workspace, float rate, DrawKey key) {
    backward<T>(lane, {d_q, d_k, d_v, H * D, K * D}, d_out, {q, k, v, H * D, K * D}, out, lse,
                {B, T_, H, K, D, window, alibi}, workspace, rate, key);
  }

private:
  static constexpr std::int64_t tile = 64;

  using Scratch = detail::Scratch;

  /// The extents of an attention: H heads of queries, of which H / K share a head of keys and values; D columns in each
  /// head.
  struct Extents {
    std::int64_t B, T_, H, K, D, window;
    bool alibi;  // true if scores of distant keys are lowered (ALiBi)

    /// Returns the first key whose scores are computed for a tile of queries from position t0 on.
    [[nodiscard]] std::int64_t first_key(std::int64_t t0) const {
      return detail::first_in_window(t0, window) / 16 * 16;
    }
  };

  /// Pointers to the first head of queries, keys and values, or of their gradients, and the distances between rows in
  /// elements.
  template <class S>
  struct Operands {
    S* q;
    S* k;
    S* v;
    std::int64_t ld_q, ld_kv;
  };

  template <class E>
  struct Rows {
    E* data;
    std::int64_t ld;
    [[nodiscard]] E* row(std::int64_t r) const { return data + r * ld; }
  };

  template <real T>
  static void forward(device::Host::Lane& lane, T* out, sum_t<T>* lse, Operands<const T> from,
                      const Extents& e, void* workspace, float rate, DrawKey key) {
    using E = sum_t<T>;
    const std::int64_t T_ = e.T_, H = e.H, D = e.D;
    const E scale = E(1) / std::sqrt(static_cast<E>(D));
    device::for_each_in_slots(lane, e.B * H, [&](std::int64_t slot, std::int64_t task) {
      const std::int64_t b = task / H;
      const std::int64_t h = task % H;
      const std::int64_t group = h / (H / e.K);
      Scratch scratch = Scratch::of(workspace, slot, forward_slot<T>(T_, D, e.window));
      E* const p = scratch.take<E>(strip(T_, e.window));  // (64, t1 - s0)
      E* const factors = scratch.take<E>(strip(T_, e.window));
      const std::int64_t of_keys = b * T_ * from.ld_kv + group * D;
      const auto q = widened(from.q + b * T_ * from.ld_q + h * D, from.ld_q, T_, D, scratch);
      const auto k = widened(from.k + of_keys, from.ld_kv, T_, D, scratch);  // (T, D)
      const auto v = widened(from.v + of_keys, from.ld_kv, T_, D, scratch);
      DrawKey sample = key;
      sample.sample += static_cast<std::uint64_t>(b);
      for (std::int64_t t0 = 0; t0 < T_; t0 += tile) {
        const std::int64_t t1 = (std::min)(T_, t0 + tile);
        const std::int64_t s0 = e.first_key(t0);
        const std::int64_t keys = t1 - s0;
        const std::int64_t ld = leading(keys);
        detail::gemm_here(Transpose::no, Transpose::yes, t1 - t0, keys, D, scale, q.row(t0), q.ld,
                          k.row(s0), k.ld, E(0), p, ld, scratch);
        add_bias(p, h, e, t0, t1, s0, ld);
        device::run_vectors<E>(detail::CausalSoftmax{}, p, lse + (b * H + h) * T_ + t0, t1 - t0,
                               keys, ld, t0 - s0, e.window);
        if (rate > 0.0F) {
          draw(factors, sample, h, T_, t0, t1, s0, ld, rate);
          device::run_vectors<E>(detail::MultiplyAdd{}, p, static_cast<const E*>(p),
                                 static_cast<const E*>(factors), (t1 - t0) * ld, false);
        }
        T* const to = out + (b * T_ + t0) * H * D + h * D;
        Scratch row_scratch = scratch;
        const auto sums = unrounded(to, H * D, t1 - t0, D, row_scratch);
        detail::gemm_here(Transpose::no, Transpose::no, t1 - t0, D, keys, E(1),
                          static_cast<const E*>(p), ld, v.row(s0), v.ld, E(0), sums.data, sums.ld,
                          row_scratch);
        round_into(to, H * D, sums, t1 - t0, D);
      }
    });
  }

  template <real T>
  static void backward(device::Host::Lane& lane, Operands<T> to, const T* d_out,
                       Operands<const T> from, const T* out, const sum_t<T>* lse, const Extents& e,
                       void* workspace, float rate, DrawKey key) {
    const std::int64_t T_ = e.T_, D = e.D;
    const std::int64_t shared_by = e.H / e.K;
    device::for_each_in_slots(lane, e.B * e.K, [&](std::int64_t slot, std::int64_t task) {
      const std::int64_t b = task / e.K;
      Scratch scratch = Scratch::of(workspace, slot, backward_slot<T>(T_, D, e.window));
      const std::int64_t of_keys = b * T_ * from.ld_kv + task % e.K * D;
      const auto k = widened(from.k + of_keys, from.ld_kv, T_, D, scratch);  // (T, D)
      const auto v = widened(from.v + of_keys, from.ld_kv, T_, D, scratch);
      const auto d_k = unrounded(to.k + of_keys, to.ld_kv, T_, D, scratch);
      const auto d_v = unrounded(to.v + of_keys, to.ld_kv, T_, D, scratch);
      for (std::int64_t i = 0; i < shared_by; ++i) {
        backward_of_head<T>(to, d_out, from, out, lse, e, b, task % e.K * shared_by + i, i == 0, k,
                            v, d_k, d_v, scratch, rate, key);
      }
      round_into(to.k + of_keys, to.ld_kv, d_k, T_, D);
      round_into(to.v + of_keys, to.ld_kv, d_v, T_, D);
    });
  }

  /// Computes the gradient of one head's queries, and its part of the gradients of keys and values, which it writes if
  /// `first` and otherwise adds.
  template <real T>
  static void backward_of_head(Operands<T> to, const T* d_out, Operands<const T> from, const T* out,
                               const sum_t<T>* lse, const Extents& e, std::int64_t b,
                               std::int64_t h, bool first, Rows<const sum_t<T>> k,
                               Rows<const sum_t<T>> v, Rows<sum_t<T>> d_k, Rows<sum_t<T>> d_v,
                               Scratch scratch, float rate, DrawKey sample) {
    using E = sum_t<T>;
    const std::int64_t T_ = e.T_, H = e.H, D = e.D;
    const E scale = E(1) / std::sqrt(static_cast<E>(D));
    E* const p = scratch.take<E>(strip(T_, e.window));        // (64, t1 - s0)
    E* const d = scratch.take<E>(strip(T_, e.window));        // (64, t1 - s0)
    E* const factors = scratch.take<E>(strip(T_, e.window));  // (64, t1 - s0)
    E* const delta = scratch.take<E>(tile);
    const std::int64_t head = b * T_ * from.ld_q + h * D;
    const auto q = widened(from.q + head, from.ld_q, T_, D, scratch);  // (T, D)
    const auto d_q = unrounded(to.q + head, to.ld_q, T_, D, scratch);
    sample.sample += static_cast<std::uint64_t>(b);
    // The last tile is computed first: it writes all rows of d_k and d_v, to which the other tiles add.
    const std::int64_t last_tile = (T_ - 1) / tile * tile;
    if (first) {
      for (std::int64_t s = 0; s < e.first_key(last_tile); ++s) {
        std::fill_n(d_k.row(s), D, E(0));
        std::fill_n(d_v.row(s), D, E(0));
      }
    }
    for (std::int64_t t0 = last_tile; t0 >= 0; t0 -= tile) {
      const std::int64_t t1 = (std::min)(T_, t0 + tile);
      const std::int64_t s0 = e.first_key(t0);
      const std::int64_t keys = t1 - s0;
      const std::int64_t ld = leading(keys);
      const std::int64_t rows = t1 - t0;
      const E beta = first && t1 == T_ ? E(0) : E(1);
      const std::int64_t at = (b * T_ + t0) * H * D + h * D;
      device::run_vectors<T>(detail::RowDots{}, delta, d_out + at, out + at, rows, D, H * D);
      Scratch row_scratch = scratch;
      const auto go = widened(d_out + at, H * D, rows, D, row_scratch);  // (rows, D)
      detail::gemm_here(Transpose::no, Transpose::yes, rows, keys, D, scale, q.row(t0), q.ld,
                        k.row(s0), k.ld, E(0), p, ld, row_scratch);
      add_bias(p, h, e, t0, t1, s0, ld);
      detail::gemm_here(Transpose::no, Transpose::yes, rows, keys, D, E(1), go.data, go.ld,
                        v.row(s0), v.ld, E(0), d, ld, row_scratch);
      if (rate > 0.0F) draw(factors, sample, h, T_, t0, t1, s0, ld, rate);
      device::run_vectors<E>(detail::CausalSoftmaxBackward{}, p, d, lse + (b * H + h) * T_ + t0,
                             static_cast<const E*>(delta),
                             rate > 0.0F ? static_cast<const E*>(factors) : nullptr, rows, keys, ld,
                             t0 - s0, e.window, scale);
      detail::gemm_here(Transpose::yes, Transpose::no, keys, D, rows, E(1),
                        static_cast<const E*>(p), ld, go.data, go.ld, beta, d_v.row(s0), d_v.ld,
                        row_scratch);
      detail::gemm_here(Transpose::yes, Transpose::no, keys, D, rows, E(1),
                        static_cast<const E*>(d), ld, q.row(t0), q.ld, beta, d_k.row(s0), d_k.ld,
                        row_scratch);
      detail::gemm_here(Transpose::no, Transpose::no, rows, D, keys, E(1), static_cast<const E*>(d),
                        ld, k.row(s0), k.ld, E(0), d_q.row(t0), d_q.ld, row_scratch);
    }
    round_into(to.q + head, to.ld_q, d_q, T_, D);
  }

  /// Adds the bias by distance (ALiBi) of head h to the scores of queries [t0, t1) and keys [s0, t1), if there is one.
  template <class E>
  static void add_bias(E* scores, std::int64_t h, const Extents& e, std::int64_t t0, std::int64_t t1, std::int64_t s0,
                       std::int64_t ld) {
    if (!e.alibi) return;
    device::run_vectors<E>(detail::AlibiBias{}, scores, t1 - t0, t1 - s0, ld, s0 - t0,
                           static_cast<E>(nn::detail::alibi_slope(h, e.H)));
  }

  /// Returns the bytes of scratch memory for a head's operands and results in wider numbers: `wide` matrices (T, D),
  /// and one tile.
  template <real T>
  static Bytes widened_bytes(std::int64_t T_, std::int64_t D, Bytes wide) {
    using E = sum_t<T>;
    if constexpr (std::is_same_v<T, E>) return 0;
    return wide * Scratch::bytes<E>(T_ * D) + Scratch::bytes<E>(tile * D);
  }
  template <real T>
  static Bytes forward_slot(std::int64_t T_, std::int64_t D, std::int64_t window) {
    using E = sum_t<T>;
    return 2 * Scratch::bytes<E>(strip(T_, window)) + widened_bytes<T>(T_, D, 3) +
           forward_products<E>(T_, D);
  }
  template <real T>
  static Bytes backward_slot(std::int64_t T_, std::int64_t D, std::int64_t window) {
    using E = sum_t<T>;
    return 3 * Scratch::bytes<E>(strip(T_, window)) + Scratch::bytes<E>(tile) +
           widened_bytes<T>(T_, D, 6) +
           (std::max)(forward_products<E>(T_, D),
                      detail::gemm_here_bytes<E>(Transpose::yes, Transpose::no, T_, D, tile));
  }
  /// Returns the scratch bytes of attention's products q k^T and p v, tile by tile.
  template <class E>
  static Bytes forward_products(std::int64_t T_, std::int64_t D) {
    return (std::max)(detail::gemm_here_bytes<E>(Transpose::no, Transpose::yes, tile, T_, D),
                      detail::gemm_here_bytes<E>(Transpose::no, Transpose::no, tile, D, T_));
  }

  /// Returns rows as numbers of the type in which sums are computed: in place if they have that type, otherwise
  /// converted in scratch memory.
  template <real T>
  static Rows<const sum_t<T>> widened(const T* from, std::int64_t ld, std::int64_t rows,
                                      std::int64_t columns, Scratch& scratch) {
    if constexpr (std::is_same_v<T, sum_t<T>>) {
      return {from, ld};
    } else {
      sum_t<T>* const to = scratch.take<sum_t<T>>(rows * columns);
      device::run_vectors<T>(detail::CopyRows{}, to, columns, from, ld, rows, columns);
      return {to, columns};
    }
  }

  /// Returns the memory in which results are summed: the results' own if it has the type of sums, otherwise scratch
  /// memory, from which they are rounded.
  template <real T>
  static Rows<sum_t<T>> unrounded(T* to, std::int64_t ld, std::int64_t rows, std::int64_t columns,
                                  Scratch& scratch) {
    if constexpr (std::is_same_v<T, sum_t<T>>) {
      return {to, ld};
    } else {
      return {scratch.take<sum_t<T>>(rows * columns), columns};
    }
  }
  template <real T>
  static void round_into(T* to, std::int64_t ld, Rows<sum_t<T>> from, std::int64_t rows,
                         std::int64_t columns) {
    if constexpr (!std::is_same_v<T, sum_t<T>>) {
      device::run_vectors<T>(detail::CopyRows{}, to, ld, static_cast<const sum_t<T>*>(from.data),
                             from.ld, rows, columns);
    }
  }

  static std::int64_t leading(std::int64_t columns) { return (columns + 15) / 16 * 16; }
  static std::int64_t strip(std::int64_t T_, std::int64_t window) {
    return tile * leading(window == 0 ? T_ : (std::min)(T_, window + tile + 16));
  }

  // Writes the factors of dropout to a matrix (t1 - t0, ld): for query t and key s0 + i, and 0 for keys after t.
  template <class T>
  static void draw(T* factors, const DrawKey& key, std::int64_t h, std::int64_t T_, std::int64_t t0,
                   std::int64_t t1, std::int64_t s0, std::int64_t ld, float rate) {
    for (std::int64_t t = t0; t < t1; ++t) {
      T* const row = factors + (t - t0) * ld;
      const std::int64_t keys = t + 1 - s0;
      dropout_factors(row, key, static_cast<std::uint64_t>((h * T_ + t) * T_ + s0), keys, rate);
      std::fill(row + keys, row + ld, T(0));
    }
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
