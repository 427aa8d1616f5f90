#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <reef/core/element.hpp>
#include <reef/core/random.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/detail/copy_rows.hpp>
#include <reef/nn/host/detail/gemm_here.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/host/dropout.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

// p (rows, columns) holds scores; row i attends to columns [0, first + i]. Afterwards it holds
// probabilities, zero beyond, and lse (rows).
struct CausalSoftmax {
  template <class V, class T>
  void run(T* p, T* lse, std::int64_t rows, std::int64_t columns, std::int64_t ld,
           std::int64_t first) const {
    const V lowest(std::numeric_limits<T>::lowest());
    const V zero(T(0));
    for (std::int64_t r = 0; r < rows; ++r) {
      T* const row = p + r * ld;
      const std::int64_t n = first + r + 1;
      V highest = lowest;
      for (std::int64_t i = 0; i < n; i += V::width)
        highest = larger(highest, V::load(row + i, n - i, lowest));
      const T top = largest(highest);
      V total = zero;
      for (std::int64_t i = 0; i < n; i += V::width) {
        const V e = keep(exp(V::load(row + i, n - i) - V(top)), n - i);
        total += e;
        e.store(row + i, columns - i);
      }
      const T all = sum(total);
      const V factor(T(1) / all);
      for (std::int64_t i = 0; i < n; i += V::width) {
        (V::load(row + i, columns - i) * factor).store(row + i, columns - i);
      }
      for (std::int64_t i = (n + V::width - 1) / V::width * V::width; i < columns; i += V::width) {
        zero.store(row + i, columns - i);
      }
      lse[r] = top + std::log(all);
    }
  }
};

// p: scores -> probabilities by lse; d: gradient of probabilities -> gradient of scores / scale.
struct CausalSoftmaxBackward {
  template <class V, class T>
  void run(T* p, T* d, const T* lse, const T* delta, const T* factors, std::int64_t rows,
           std::int64_t columns, std::int64_t ld, std::int64_t first, T scale) const {
    const V zero(T(0));
    for (std::int64_t r = 0; r < rows; ++r) {
      T* const p_row = p + r * ld;
      T* const d_row = d + r * ld;
      const std::int64_t n = first + r + 1;
      const V log_sum(lse[r]);
      const V mean(delta[r]);
      for (std::int64_t i = 0; i < n; i += V::width) {
        const V prob = keep(exp(V::load(p_row + i, n - i) - log_sum), n - i);
        V kept = prob;
        V slope = V::load(d_row + i, n - i);
        if (factors != nullptr) {
          const V factor = V::load(factors + r * ld + i, n - i);
          kept = prob * factor;
          slope = slope * factor;
        }
        kept.store(p_row + i, columns - i);
        (prob * (slope - mean) * V(scale)).store(d_row + i, columns - i);
      }
      for (std::int64_t i = (n + V::width - 1) / V::width * V::width; i < columns; i += V::width) {
        zero.store(p_row + i, columns - i);
        zero.store(d_row + i, columns - i);
      }
    }
  }
};

// delta[r] = sum over D of a[r] b[r].
struct RowDots {
  template <class V, class T, class S>
  void run(T* delta, const S* a, const S* b, std::int64_t rows, std::int64_t columns,
           std::int64_t ld) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      V total(T(0));
      for (std::int64_t i = 0; i < columns; i += V::width) {
        total =
            fma(V::load(a + r * ld + i, columns - i), V::load(b + r * ld + i, columns - i), total);
      }
      delta[r] = sum(total);
    }
  }
};

}  // namespace detail

/// Causal multi-head attention. A head of a batch row is one task; it goes over tiles of 64 query
/// rows, whose scores against all keys so far are a strip of (64, t) in the workspace. Masked keys
/// beyond the tile are never computed, and no (T, T) is stored.
///
/// Of bf16 a head's operands are widened in the workspace, and its results rounded once.
struct Attention {
  template <real T>
  static Bytes attention_forward_workspace(std::int64_t /*B*/, std::int64_t T_, std::int64_t C,
                                           std::int64_t H, int threads) {
    return static_cast<Bytes>(threads) * forward_slot<T>(T_, C / H);
  }

  template <real T>
  static void attention_forward(device::Host::Lane& lane, T* out, sum_t<T>* lse, const T* qkv,
                                std::int64_t B, std::int64_t T_, std::int64_t C, std::int64_t H,
                                void* workspace, float rate = 0.0F, DrawKey key = {}) {
    using E = sum_t<T>;
    const std::int64_t D = C / H;
    const E scale = E(1) / std::sqrt(static_cast<E>(D));
    for_each_head(lane, B, H, [&](std::int64_t slot, std::int64_t b, std::int64_t h) {
      Scratch scratch = Scratch::of(workspace, slot, forward_slot<T>(T_, D));
      E* const p = scratch.take<E>(strip(T_));  // (64, t1)
      E* const factors = scratch.take<E>(strip(T_));
      const T* const head = qkv + b * T_ * 3 * C + h * D;
      const auto q = widened(head, 3 * C, T_, D, scratch);  // (T, D)
      const auto k = widened(head + C, 3 * C, T_, D, scratch);
      const auto v = widened(head + 2 * C, 3 * C, T_, D, scratch);
      DrawKey sample = key;
      sample.sample += static_cast<std::uint64_t>(b);
      for (std::int64_t t0 = 0; t0 < T_; t0 += tile) {
        const std::int64_t t1 = (std::min)(T_, t0 + tile);
        const std::int64_t ld = leading(t1);
        detail::gemm_here(Transpose::no, Transpose::yes, t1 - t0, t1, D, scale, q.row(t0), q.ld,
                          k.data, k.ld, E(0), p, ld, scratch);
        device::run_vectors<E>(detail::CausalSoftmax{}, p, lse + (b * H + h) * T_ + t0, t1 - t0, t1,
                               ld, t0);
        if (rate > 0.0F) {
          draw(factors, sample, h, T_, t0, t1, ld, rate);
          device::run_vectors<E>(detail::MultiplyAdd{}, p, static_cast<const E*>(p),
                                 static_cast<const E*>(factors), (t1 - t0) * ld, false);
        }
        T* const to = out + (b * T_ + t0) * C + h * D;
        Scratch row_scratch = scratch;
        const auto sums = unrounded(to, C, t1 - t0, D, row_scratch);
        detail::gemm_here(Transpose::no, Transpose::no, t1 - t0, D, t1, E(1),
                          static_cast<const E*>(p), ld, v.data, v.ld, E(0), sums.data, sums.ld,
                          row_scratch);
        round_into(to, C, sums, t1 - t0, D);
      }
    });
  }

  template <real T>
  static Bytes attention_backward_workspace(std::int64_t /*B*/, std::int64_t T_, std::int64_t C,
                                            std::int64_t H, int threads) {
    return static_cast<Bytes>(threads) * backward_slot<T>(T_, C / H);
  }

  template <real T>
  static void attention_backward(device::Host::Lane& lane, T* d_qkv, const T* d_out, const T* qkv,
                                 const T* out, const sum_t<T>* lse, std::int64_t B, std::int64_t T_,
                                 std::int64_t C, std::int64_t H, void* workspace, float rate = 0.0F,
                                 DrawKey key = {}) {
    using E = sum_t<T>;
    const std::int64_t D = C / H;
    const E scale = E(1) / std::sqrt(static_cast<E>(D));
    for_each_head(lane, B, H, [&](std::int64_t slot, std::int64_t b, std::int64_t h) {
      Scratch scratch = Scratch::of(workspace, slot, backward_slot<T>(T_, D));
      E* const p = scratch.take<E>(strip(T_));        // (64, t1)
      E* const d = scratch.take<E>(strip(T_));        // (64, t1)
      E* const factors = scratch.take<E>(strip(T_));  // (64, t1)
      E* const delta = scratch.take<E>(tile);
      const std::int64_t head = b * T_ * 3 * C + h * D;
      const auto q = widened(qkv + head, 3 * C, T_, D, scratch);  // (T, D)
      const auto k = widened(qkv + head + C, 3 * C, T_, D, scratch);
      const auto v = widened(qkv + head + 2 * C, 3 * C, T_, D, scratch);
      const auto d_q = unrounded(d_qkv + head, 3 * C, T_, D, scratch);
      const auto d_k = unrounded(d_qkv + head + C, 3 * C, T_, D, scratch);
      const auto d_v = unrounded(d_qkv + head + 2 * C, 3 * C, T_, D, scratch);
      DrawKey sample = key;
      sample.sample += static_cast<std::uint64_t>(b);
      // The last tile first: it writes every row of d_k and d_v, the others add to theirs.
      for (std::int64_t t0 = (T_ - 1) / tile * tile; t0 >= 0; t0 -= tile) {
        const std::int64_t t1 = (std::min)(T_, t0 + tile);
        const std::int64_t ld = leading(t1);
        const std::int64_t rows = t1 - t0;
        const E beta = t1 == T_ ? E(0) : E(1);
        const std::int64_t at = (b * T_ + t0) * C + h * D;
        device::run_vectors<T>(detail::RowDots{}, delta, d_out + at, out + at, rows, D, C);
        Scratch row_scratch = scratch;
        const auto go = widened(d_out + at, C, rows, D, row_scratch);  // (rows, D)
        detail::gemm_here(Transpose::no, Transpose::yes, rows, t1, D, scale, q.row(t0), q.ld,
                          k.data, k.ld, E(0), p, ld, row_scratch);
        detail::gemm_here(Transpose::no, Transpose::yes, rows, t1, D, E(1), go.data, go.ld, v.data,
                          v.ld, E(0), d, ld, row_scratch);
        if (rate > 0.0F) draw(factors, sample, h, T_, t0, t1, ld, rate);
        device::run_vectors<E>(detail::CausalSoftmaxBackward{}, p, d, lse + (b * H + h) * T_ + t0,
                               static_cast<const E*>(delta),
                               rate > 0.0F ? static_cast<const E*>(factors) : nullptr, rows, t1, ld,
                               t0, scale);
        detail::gemm_here(Transpose::yes, Transpose::no, t1, D, rows, E(1),
                          static_cast<const E*>(p), ld, go.data, go.ld, beta, d_v.data, d_v.ld,
                          row_scratch);
        detail::gemm_here(Transpose::yes, Transpose::no, t1, D, rows, E(1),
                          static_cast<const E*>(d), ld, q.row(t0), q.ld, beta, d_k.data, d_k.ld,
                          row_scratch);
        detail::gemm_here(Transpose::no, Transpose::no, rows, D, t1, E(1), static_cast<const E*>(d),
                          ld, k.data, k.ld, E(0), d_q.row(t0), d_q.ld, row_scratch);
      }
      round_into(d_qkv + head, 3 * C, d_q, T_, D);
      round_into(d_qkv + head + C, 3 * C, d_k, T_, D);
      round_into(d_qkv + head + 2 * C, 3 * C, d_v, T_, D);
    });
  }

private:
  static constexpr std::int64_t tile = 64;

  using Scratch = detail::Scratch;

  template <class E>
  struct Rows {
    E* data;
    std::int64_t ld;
    [[nodiscard]] E* row(std::int64_t r) const { return data + r * ld; }
  };

  /// What the operands and results of a head take of a slot: `wide` of (T, D), and a tile.
  template <real T>
  static Bytes widened_bytes(std::int64_t T_, std::int64_t D, Bytes wide) {
    using E = sum_t<T>;
    if constexpr (std::is_same_v<T, E>) return 0;
    return wide * Scratch::bytes<E>(T_ * D) + Scratch::bytes<E>(tile * D);
  }
  template <real T>
  static Bytes forward_slot(std::int64_t T_, std::int64_t D) {
    using E = sum_t<T>;
    return 2 * Scratch::bytes<E>(strip(T_)) + widened_bytes<T>(T_, D, 3) +
           forward_products<E>(T_, D);
  }
  template <real T>
  static Bytes backward_slot(std::int64_t T_, std::int64_t D) {
    using E = sum_t<T>;
    return 3 * Scratch::bytes<E>(strip(T_)) + Scratch::bytes<E>(tile) + widened_bytes<T>(T_, D, 6) +
           (std::max)(forward_products<E>(T_, D),
                      detail::gemm_here_bytes<E>(Transpose::yes, Transpose::no, T_, D, tile));
  }
  /// Of q k^T and p v, tile by tile.
  template <class E>
  static Bytes forward_products(std::int64_t T_, std::int64_t D) {
    return (std::max)(detail::gemm_here_bytes<E>(Transpose::no, Transpose::yes, tile, T_, D),
                      detail::gemm_here_bytes<E>(Transpose::no, Transpose::no, tile, D, T_));
  }

  /// The rows as numbers to compute with: where they lie, or widened.
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

  /// Where results are summed: in their own place, or to be rounded into it.
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
  static std::int64_t strip(std::int64_t T_) { return tile * leading(T_); }

  // factors (t1 - t0, ld): dropout's factor of probability (t, s), 0 beyond t1.
  template <class T>
  static void draw(T* factors, const DrawKey& key, std::int64_t h, std::int64_t T_, std::int64_t t0,
                   std::int64_t t1, std::int64_t ld, float rate) {
    for (std::int64_t t = t0; t < t1; ++t) {
      T* const row = factors + (t - t0) * ld;
      dropout_factors(row, key, static_cast<std::uint64_t>((h * T_ + t) * T_), t + 1, rate);
      std::fill(row + t + 1, row + ld, T(0));
    }
  }

  // task(slot, b, h): at most lane.threads() at once, each with a slot of its own.
  template <class Task>
  static void for_each_head(device::Host::Lane& lane, std::int64_t B, std::int64_t H,
                            const Task& task) {
    device::for_each_in_slots(
        lane, B * H, [&](std::int64_t slot, std::int64_t head) { task(slot, head / H, head % H); });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
