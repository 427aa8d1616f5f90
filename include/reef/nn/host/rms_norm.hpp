#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/layer_norm.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

// A function that normalises `rows` rows of C numbers.
struct RmsNormForward {
  template <class V, class S, class T>
  void run(S* out, T* rstd, const S* in, const S* weight, std::int64_t rows, std::int64_t C,
           T epsilon) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      const S* const x = in + r * C;
      S* const y = out + r * C;
      V squares(T(0));
      for (std::int64_t i = 0; i < C; i += V::width) {
        const V value = V::load(x + i, C - i);
        squares = fma(value, value, squares);
      }
      const T s = T(1) / std::sqrt(sum(squares) / static_cast<T>(C) + epsilon);
      const V scale(s);
      for (std::int64_t i = 0; i < C; i += V::width) {
        (V::load(x + i, C - i) * scale * V::load(weight + i, C - i)).store(y + i, C - i);
      }
      rstd[r] = s;
    }
  }
};

// A function that computes the gradients for `rows` rows of C numbers; d_weight is the sum over these rows alone.
struct RmsNormBackward {
  template <class V, class S, class T>
  void run(S* d_in, T* d_weight, const S* d_out, const S* in, const S* weight, const T* rstd,
           std::int64_t rows, std::int64_t C, bool accumulate) const {
    const V zero(T(0));
    for (std::int64_t i = 0; i < C; i += V::width) zero.store(d_weight + i, C - i);
    for (std::int64_t r = 0; r < rows; ++r) {
      const S* const x = in + r * C;
      const S* const dy = d_out + r * C;
      S* const dx = d_in + r * C;
      const V scale(rstd[r]);
      V sum_dn_normal(T(0));  // the sum of the gradient of the normalised values times these values
      for (std::int64_t i = 0; i < C; i += V::width) {
        const V g = V::load(dy + i, C - i);
        const V normal = V::load(x + i, C - i) * scale;
        sum_dn_normal = fma(g * V::load(weight + i, C - i), normal, sum_dn_normal);
        fma(g, normal, V::load(d_weight + i, C - i)).store(d_weight + i, C - i);
      }
      const V minus_mean(-(sum(sum_dn_normal) / static_cast<T>(C)));
      for (std::int64_t i = 0; i < C; i += V::width) {
        const V normal = V::load(x + i, C - i) * scale;
        const V dn = V::load(dy + i, C - i) * V::load(weight + i, C - i);
        const V before = accumulate ? V::load(dx + i, C - i) : zero;
        fma(fma(normal, minus_mean, dn), scale, before).store(dx + i, C - i);
      }
    }
  }
};

}  // namespace detail

/// The kernels of the division of rows by their root mean square. The parameter's gradient is summed in blocks of rows,
/// and then over the blocks in ascending order.
struct RmsNorm {
  template <real T>
  static void rms_norm_forward(device::Host::Lane& lane, T* out, sum_t<T>* rstd, const T* in,
                               const T* weight, std::int64_t R, std::int64_t C, sum_t<T> epsilon) {
    const std::int64_t block =
        std::max<std::int64_t>(1, device::elementwise_block / std::max<std::int64_t>(1, C));
    device::for_each_block(lane, R, block, [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(detail::RmsNormForward{}, out + begin * C, rstd + begin,
                             in + begin * C, weight, end - begin, C, epsilon);
    });
  }

  template <real T>
  static Bytes rms_norm_backward_workspace(std::int64_t R, std::int64_t C) {
    const std::int64_t blocks = (R + rows_of_block(R) - 1) / rows_of_block(R);
    return static_cast<Bytes>(blocks * C) * sizeof(sum_t<T>);
  }

  template <real T>
  static void rms_norm_backward(device::Host::Lane& lane, T* d_in, sum_t<T>* d_weight,
                                const T* d_out, const T* in, const T* weight, const sum_t<T>* rstd,
                                std::int64_t R, std::int64_t C, bool accumulate_input,
                                bool accumulate_parameters, void* workspace) {
    using E = sum_t<T>;
    if (C == 0) return;
    if (R == 0) {
      if (!accumulate_parameters) lane.fill_zero(d_weight, static_cast<Bytes>(C) * sizeof(E));
      return;
    }
    const std::int64_t block = rows_of_block(R);
    E* const parts = static_cast<E*>(workspace);  // (blocks, C)
    device::for_each_block(lane, R, block, [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(detail::RmsNormBackward{}, d_in + begin * C, parts + begin / block * C,
                             d_out + begin * C, in + begin * C, weight, rstd + begin, end - begin,
                             C, accumulate_input);
    });
    device::run_vectors<E>(detail::SumOfParts{}, d_weight, static_cast<const E*>(parts),
                           (R + block - 1) / block, C, C, accumulate_parameters);
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
