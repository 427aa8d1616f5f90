#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// The first column that row `last` attends to, if that is the last: 0 without a window.
inline std::int64_t first_in_window(std::int64_t last, std::int64_t window) {
  return window == 0 || last < window ? 0 : last + 1 - window;
}

/// Adds slope (key - query) to scores (rows, columns): `first` is the key of column 0 less the query of row 0. One fma
/// each.
struct AlibiBias {
  template <class V, class T>
  void run(T* scores, std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t first, T slope) const {
    T lanes[V::width];
    for (std::int64_t i = 0; i < V::width; ++i) lanes[i] = static_cast<T>(i);
    const V ascending = V::load(lanes);
    for (std::int64_t r = 0; r < rows; ++r) {
      T* const row = scores + r * ld;
      for (std::int64_t i = 0; i < columns; i += V::width) {
        const V distance = ascending + V(static_cast<T>(first - r + i));
        fma(V(slope), distance, V::load(row + i, columns - i)).store(row + i, columns - i);
      }
    }
  }
};

// p (rows, all) holds scores; row i attends to columns up to first + i, of a window to so many of them.
// Afterwards it holds probabilities, zero elsewhere, and lse (rows).
struct CausalSoftmax {
  template <class V, class T>
  void run(T* p, T* lse, std::int64_t rows, std::int64_t all, std::int64_t ld, std::int64_t first,
           std::int64_t window) const {
    const V lowest(std::numeric_limits<T>::lowest());
    const V zero(T(0));
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t low = first_in_window(first + r, window);
      std::fill_n(p + r * ld, low, T(0));
      T* const row = p + r * ld + low;
      const std::int64_t n = first + r + 1 - low;
      const std::int64_t columns = all - low;
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
      const T sums = sum(total);
      const V factor(T(1) / sums);
      for (std::int64_t i = 0; i < n; i += V::width) {
        (V::load(row + i, columns - i) * factor).store(row + i, columns - i);
      }
      for (std::int64_t i = (n + V::width - 1) / V::width * V::width; i < columns; i += V::width) {
        zero.store(row + i, columns - i);
      }
      lse[r] = top + std::log(sums);
    }
  }
};

// p: scores -> probabilities by lse; d: gradient of probabilities -> gradient of scores / scale.
struct CausalSoftmaxBackward {
  template <class V, class T>
  void run(T* p, T* d, const T* lse, const T* delta, const T* factors, std::int64_t rows,
           std::int64_t all, std::int64_t ld, std::int64_t first, std::int64_t window,
           T scale) const {
    const V zero(T(0));
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t low = first_in_window(first + r, window);
      std::fill_n(p + r * ld, low, T(0));
      std::fill_n(d + r * ld, low, T(0));
      T* const p_row = p + r * ld + low;
      T* const d_row = d + r * ld + low;
      const std::int64_t n = first + r + 1 - low;
      const std::int64_t columns = all - low;
      const V log_sum(lse[r]);
      const V mean(delta[r]);
      for (std::int64_t i = 0; i < n; i += V::width) {
        const V prob = keep(exp(V::load(p_row + i, n - i) - log_sum), n - i);
        V kept = prob;
        V slope = V::load(d_row + i, n - i);
        if (factors != nullptr) {
          const V factor = V::load(factors + r * ld + low + i, n - i);
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

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
