#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// Sixteen partial sums of a row, of which sum i adds the numbers at indices i, i + 16, ...: they do not depend on the
/// width of vectors.
template <class V>
class SixteenSums {
public:
  using E = typename V::element_type;
  static constexpr std::int64_t lanes = 16;

  SixteenSums() {
    for (V& part : parts_) part = V(E(0));
  }

  /// Calls add(vector of sums, index, numbers left) for each vector of a row of n numbers, in order; the result is the
  /// new vector of partial sums.
  template <class Add>
  REEF_ALWAYS_INLINE void over(std::int64_t n, const Add& add) {
    for (std::int64_t i = 0; i < n; i += lanes) {
      for (std::int64_t part = 0; part < lanes / V::width; ++part) {
        const std::int64_t place = i + part * V::width;
        if (place < n) parts_[part] = add(parts_[part], place, n - place);
      }
    }
  }

  /// Returns the sum of all sixteen partial sums: the upper half is added to the lower half, until one number is left.
  [[nodiscard]] REEF_ALWAYS_INLINE E total() const {
    E sums[lanes];
    for (std::int64_t part = 0; part < lanes / V::width; ++part) parts_[part].store(sums + part * V::width);
    for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) sums[i] = sums[i] + sums[half + i];
    }
    return sums[0];
  }

private:
  V parts_[lanes / V::width];
};

/// A function that normalises one row of C numbers: out = (in - mean) / sqrt(variance + epsilon) weight + bias.
struct LayerNormRow {
  template <class V, class S, class E>
  void run(S* out, const S* in, const S* weight, const S* bias, std::int64_t C, E epsilon) const {
    SixteenSums<V> all;
    all.over(C, [&](const V& sum, std::int64_t i, std::int64_t n) { return sum + V::load(in + i, n); });
    const E mean = all.total() / static_cast<E>(C);
    SixteenSums<V> squares;
    squares.over(C, [&](const V& sum, std::int64_t i, std::int64_t n) {
      const V centred = keep(V::load(in + i, n) - V(mean), n);
      return fma(centred, centred, sum);
    });
    const E scale = E(1) / std::sqrt(squares.total() / static_cast<E>(C) + epsilon);
    for (std::int64_t i = 0; i < C; i += V::width) {
      const std::int64_t n = C - i;
      const V normal = (V::load(in + i, n) - V(mean)) * V(scale);
      fma(normal, V::load(weight + i, n), V::load(bias + i, n)).store(out + i, n);
    }
  }
};

/// A function that normalises one row of C numbers: out = in / sqrt(mean of squares + epsilon) weight.
struct RmsNormRow {
  template <class V, class S, class E>
  void run(S* out, const S* in, const S* weight, std::int64_t C, E epsilon) const {
    SixteenSums<V> squares;
    squares.over(C, [&](const V& sum, std::int64_t i, std::int64_t n) {
      const V value = V::load(in + i, n);
      return fma(value, value, sum);
    });
    const V scale(E(1) / std::sqrt(squares.total() / static_cast<E>(C) + epsilon));
    for (std::int64_t i = 0; i < C; i += V::width) {
      const std::int64_t n = C - i;
      (V::load(in + i, n) * scale * V::load(weight + i, n)).store(out + i, n);
    }
  }
};

}  // namespace detail

/// The kernels of layer norm and RMS norm of rows (tokens), whose sums have the same order on any instruction set.
struct RowsNorms {
  template <real T>
  static void rows_layer_norm(device::Host::Lane& lane, T* out, const T* in, const T* weight, const T* bias,
                              std::int64_t R, std::int64_t C, sum_t<T> epsilon) {
    each_row(lane, R, C, [&](std::int64_t r) {
      device::run_vectors<T>(detail::LayerNormRow{}, out + r * C, in + r * C, weight, bias, C, epsilon);
    });
  }

  template <real T>
  static void rows_rms_norm(device::Host::Lane& lane, T* out, const T* in, const T* weight, std::int64_t R,
                            std::int64_t C, sum_t<T> epsilon) {
    each_row(lane, R, C, [&](std::int64_t r) {
      device::run_vectors<T>(detail::RmsNormRow{}, out + r * C, in + r * C, weight, C, epsilon);
    });
  }

private:
  template <class F>
  static void each_row(device::Host::Lane& lane, std::int64_t R, std::int64_t C, const F& function) {
    const std::int64_t block = std::max<std::int64_t>(1, device::elementwise_block / C);
    device::for_each_block(lane, R, block, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) function(r);
    });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
