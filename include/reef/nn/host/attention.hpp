#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>

#include <reef/core/element.hpp>
#include <reef/core/random.hpp>
#include <reef/core/units.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/dropout.hpp>
#include <reef/nn/host/gemm.hpp>
#include <reef/nn/kernels.hpp>

namespace reef::inline v0::nn::host {

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
        highest = max(highest, V::load(row + i, n - i, lowest));
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
  template <class V, class T>
  void run(T* delta, const T* a, const T* b, std::int64_t rows, std::int64_t columns,
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
struct Attention {
  template <real T>
  static Bytes attention_forward_workspace(std::int64_t /*B*/, std::int64_t T_, std::int64_t /*C*/,
                                           std::int64_t /*H*/, int threads) {
    return static_cast<Bytes>(threads * 2 * strip(T_)) * sizeof(T);
  }

  template <real T>
  static void attention_forward(device::Host::Lane& lane, T* out, T* lse, const T* qkv,
                                std::int64_t B, std::int64_t T_, std::int64_t C, std::int64_t H,
                                void* workspace, float rate = 0.0F, DrawKey key = {}) {
    const std::int64_t D = C / H;
    const T scale = T(1) / std::sqrt(static_cast<T>(D));
    for_each_head(lane, B, H, [&](std::int64_t slot, std::int64_t b, std::int64_t h) {
      T* const p = static_cast<T*>(workspace) + slot * 2 * strip(T_);  // (64, t1)
      T* const factors = p + strip(T_);
      const T* const q = qkv + b * T_ * 3 * C + h * D;  // (T, D), stride 3C
      const T* const k = q + C;
      const T* const v = k + C;
      DrawKey sample = key;
      sample.sample += static_cast<std::uint64_t>(b);
      for (std::int64_t t0 = 0; t0 < T_; t0 += tile) {
        const std::int64_t t1 = std::min(T_, t0 + tile);
        const std::int64_t ld = leading(t1);
        detail::gemm_here(Transpose::no, Transpose::yes, t1 - t0, t1, D, scale, q + t0 * 3 * C,
                          3 * C, k, 3 * C, T(0), p, ld);
        device::run_vectors<T>(detail::CausalSoftmax{}, p, lse + (b * H + h) * T_ + t0, t1 - t0, t1,
                               ld, t0);
        if (rate > 0.0F) {
          draw(factors, sample, h, T_, t0, t1, ld, rate);
          device::run_vectors<T>(detail::MultiplyAdd{}, p, static_cast<const T*>(p),
                                 static_cast<const T*>(factors), (t1 - t0) * ld, false);
        }
        detail::gemm_here(Transpose::no, Transpose::no, t1 - t0, D, t1, T(1),
                          static_cast<const T*>(p), ld, v, 3 * C, T(0),
                          out + (b * T_ + t0) * C + h * D, C);
      }
    });
  }

  template <real T>
  static Bytes attention_backward_workspace(std::int64_t /*B*/, std::int64_t T_, std::int64_t /*C*/,
                                            std::int64_t /*H*/, int threads) {
    return static_cast<Bytes>(threads * (3 * strip(T_) + tile)) * sizeof(T);
  }

  template <real T>
  static void attention_backward(device::Host::Lane& lane, T* d_qkv, const T* d_out, const T* qkv,
                                 const T* out, const T* lse, std::int64_t B, std::int64_t T_,
                                 std::int64_t C, std::int64_t H, void* workspace, float rate = 0.0F,
                                 DrawKey key = {}) {
    const std::int64_t D = C / H;
    const T scale = T(1) / std::sqrt(static_cast<T>(D));
    for_each_head(lane, B, H, [&](std::int64_t slot, std::int64_t b, std::int64_t h) {
      T* const p = static_cast<T*>(workspace) + slot * (3 * strip(T_) + tile);  // (64, t1)
      T* const d = p + strip(T_);                                               // (64, t1)
      T* const factors = d + strip(T_);                                         // (64, t1)
      T* const delta = factors + strip(T_);                                     // (64)
      const std::int64_t head = b * T_ * 3 * C + h * D;
      const T* const q = qkv + head;  // (T, D), stride 3C
      const T* const k = q + C;
      const T* const v = k + C;
      T* const d_q = d_qkv + head;
      T* const d_k = d_q + C;
      T* const d_v = d_k + C;
      DrawKey sample = key;
      sample.sample += static_cast<std::uint64_t>(b);
      // The last tile first: it writes every row of d_k and d_v, the others add to theirs.
      for (std::int64_t t0 = (T_ - 1) / tile * tile; t0 >= 0; t0 -= tile) {
        const std::int64_t t1 = std::min(T_, t0 + tile);
        const std::int64_t ld = leading(t1);
        const std::int64_t rows = t1 - t0;
        const T beta = t1 == T_ ? T(0) : T(1);
        const T* const go = d_out + (b * T_ + t0) * C + h * D;  // (rows, D), stride C
        device::run_vectors<T>(detail::RowDots{}, delta, go, out + (b * T_ + t0) * C + h * D, rows,
                               D, C);
        detail::gemm_here(Transpose::no, Transpose::yes, rows, t1, D, scale, q + t0 * 3 * C, 3 * C,
                          k, 3 * C, T(0), p, ld);
        detail::gemm_here(Transpose::no, Transpose::yes, rows, t1, D, T(1), go, C, v, 3 * C, T(0),
                          d, ld);
        if (rate > 0.0F) draw(factors, sample, h, T_, t0, t1, ld, rate);
        device::run_vectors<T>(detail::CausalSoftmaxBackward{}, p, d, lse + (b * H + h) * T_ + t0,
                               static_cast<const T*>(delta),
                               rate > 0.0F ? static_cast<const T*>(factors) : nullptr, rows, t1, ld,
                               t0, scale);
        detail::gemm_here(Transpose::yes, Transpose::no, t1, D, rows, T(1),
                          static_cast<const T*>(p), ld, go, C, beta, d_v, 3 * C);
        detail::gemm_here(Transpose::yes, Transpose::no, t1, D, rows, T(1),
                          static_cast<const T*>(d), ld, q + t0 * 3 * C, 3 * C, beta, d_k, 3 * C);
        detail::gemm_here(Transpose::no, Transpose::no, rows, D, t1, T(1), static_cast<const T*>(d),
                          ld, k, 3 * C, T(0), d_q + t0 * 3 * C, 3 * C);
      }
    });
  }

private:
  static constexpr std::int64_t tile = 64;

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
    std::atomic<std::int64_t> next{0};
    lane.parallel(std::min<std::int64_t>(lane.threads(), B * H), [&](std::int64_t slot) {
      while (true) {
        const std::int64_t head = next.fetch_add(1, std::memory_order_relaxed);
        if (head >= B * H) return;
        task(slot, head / H, head % H);
      }
    });
  }
};

}  // namespace reef::inline v0::nn::host
