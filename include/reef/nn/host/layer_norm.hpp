#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

// A function that normalises `rows` rows of C numbers.
struct LayerNormForward {
  template <class V, class S, class T>
  void run(S* out, T* mean, T* rstd, const S* in, const S* weight, const S* bias, std::int64_t rows,
           std::int64_t C, T epsilon) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      const S* const x = in + r * C;
      S* const y = out + r * C;
      V total(T(0));
      for (std::int64_t i = 0; i < C; i += V::width) total += V::load(x + i, C - i);
      const T m = sum(total) / static_cast<T>(C);
      V squares(T(0));
      for (std::int64_t i = 0; i < C; i += V::width) {
        const V centred = keep(V::load(x + i, C - i) - V(m), C - i);
        squares = fma(centred, centred, squares);
      }
      const T s = T(1) / std::sqrt(sum(squares) / static_cast<T>(C) + epsilon);
      const V scale(s);
      const V shift(-m * s);
      for (std::int64_t i = 0; i < C; i += V::width) {
        const V normal = fma(V::load(x + i, C - i), scale, shift);
        fma(normal, V::load(weight + i, C - i), V::load(bias + i, C - i)).store(y + i, C - i);
      }
      mean[r] = m;
      rstd[r] = s;
    }
  }
};

// A function that computes the gradients for `rows` rows of C numbers; d_weight and d_bias are sums over these rows
// alone.
struct LayerNormBackward {
  template <class V, class S, class T>
  void run(S* d_in, T* d_weight, T* d_bias, const S* d_out, const S* in, const S* weight,
           const T* mean, const T* rstd, std::int64_t rows, std::int64_t C, bool accumulate) const {
    const V zero(T(0));
    for (std::int64_t i = 0; i < C; i += V::width) {
      zero.store(d_weight + i, C - i);
      zero.store(d_bias + i, C - i);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const S* const x = in + r * C;
      const S* const dy = d_out + r * C;
      S* const dx = d_in + r * C;
      const V scale(rstd[r]);
      const V shift(-mean[r] * rstd[r]);
      V sum_dn(T(0));         // the sum of the gradient of the normalised values
      V sum_dn_normal(T(0));  // the sum of this gradient times the normalised values
      for (std::int64_t i = 0; i < C; i += V::width) {
        const V g = V::load(dy + i, C - i);
        const V normal = fma(V::load(x + i, C - i), scale, shift);
        const V dn = g * V::load(weight + i, C - i);  // the gradient of the normalised values; 0 beyond C
        sum_dn += dn;
        sum_dn_normal = fma(dn, normal, sum_dn_normal);
        fma(g, normal, V::load(d_weight + i, C - i)).store(d_weight + i, C - i);
        (g + V::load(d_bias + i, C - i)).store(d_bias + i, C - i);
      }
      const V mean_dn(sum(sum_dn) / static_cast<T>(C));
      const V mean_dn_normal(sum(sum_dn_normal) / static_cast<T>(C));
      for (std::int64_t i = 0; i < C; i += V::width) {
        const V normal = fma(V::load(x + i, C - i), scale, shift);
        const V dn = V::load(dy + i, C - i) * V::load(weight + i, C - i);
        const V before = accumulate ? V::load(dx + i, C - i) : zero;
        fma(dn - fma(normal, mean_dn_normal, mean_dn), scale, before).store(dx + i, C - i);
      }
    }
  }
};

// A function that writes the sum of parts[0], parts[stride], ..., in this order, to `target`, C numbers, or adds it.
struct SumOfParts {
  template <class V, class T>
  void run(T* target, const T* parts, std::int64_t count, std::int64_t stride, std::int64_t C,
           bool accumulate) const {
    for (std::int64_t i = 0; i < C; i += V::width) {
      V total = V::load(parts + i, C - i);
      for (std::int64_t part = 1; part < count; ++part) {
        total += V::load(parts + part * stride + i, C - i);
      }
      if (accumulate) total = V::load(target + i, C - i) + total;
      total.store(target + i, C - i);
    }
  }
};

}  // namespace detail

/// The kernels of layer normalisation over the last axis. The parameters' gradients are summed in blocks of rows, and
/// then over the blocks in ascending order.
struct LayerNorm {
  template <real T>
  static void layer_norm_forward(device::Host::Lane& lane, T* out, sum_t<T>* mean, sum_t<T>* rstd,
                                 const T* in, const T* weight, const T* bias, std::int64_t R,
                                 std::int64_t C, sum_t<T> epsilon) {
    const std::int64_t block = std::max<std::int64_t>(1, device::elementwise_block / C);
    device::for_each_block(lane, R, block, [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(detail::LayerNormForward{}, out + begin * C, mean + begin,
                             rstd + begin, in + begin * C, weight, bias, end - begin, C, epsilon);
    });
  }

  template <real T>
  static Bytes layer_norm_backward_workspace(std::int64_t R, std::int64_t C) {
    const std::int64_t blocks = (R + rows_of_block(R) - 1) / rows_of_block(R);
    return static_cast<Bytes>(2 * blocks * C) * sizeof(sum_t<T>);
  }

  template <real T>
  static void layer_norm_backward(device::Host::Lane& lane, T* d_in, sum_t<T>* d_weight,
                                  sum_t<T>* d_bias, const T* d_out, const T* in, const T* weight,
                                  const sum_t<T>* mean, const sum_t<T>* rstd, std::int64_t R,
                                  std::int64_t C, bool accumulate_input, bool accumulate_parameters,
                                  void* workspace) {
    using E = sum_t<T>;
    if (C == 0) return;
    if (R == 0) {
      if (accumulate_parameters) return;
      lane.fill_zero(d_weight, static_cast<Bytes>(C) * sizeof(E));
      lane.fill_zero(d_bias, static_cast<Bytes>(C) * sizeof(E));
      return;
    }
    const std::int64_t block = rows_of_block(R);
    E* const parts = static_cast<E*>(workspace);  // (blocks, 2, C)
    device::for_each_block(lane, R, block, [&](std::int64_t begin, std::int64_t end) {
      E* const part = parts + begin / block * 2 * C;
      device::run_vectors<T>(detail::LayerNormBackward{}, d_in + begin * C, part, part + C,
                             d_out + begin * C, in + begin * C, weight, mean + begin, rstd + begin,
                             end - begin, C, accumulate_input);
    });
    const std::int64_t blocks = (R + block - 1) / block;
    const E* const sums = parts;
    device::run_vectors<E>(detail::SumOfParts{}, d_weight, sums, blocks, 2 * C, C,
                           accumulate_parameters);
    device::run_vectors<E>(detail::SumOfParts{}, d_bias, sums + C, blocks, 2 * C, C,
                           accumulate_parameters);
  }

private:
  // Returns the number of rows of a block: at least 16, for at most 16 blocks, so that their sums stay in the cache and
  // 8 threads have work.
  static std::int64_t rows_of_block(std::int64_t R) {
    return std::max<std::int64_t>(16, (R + 15) / 16);
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
