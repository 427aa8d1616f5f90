#pragma once

#include <algorithm>
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

// A function that writes the sum of (a - b)^2 to *total.
struct SquaredDifference {
  template <class V, class S>
  void run(double* total, const S* a, const S* b, std::int64_t n) const {
    using T = typename V::element_type;
    V squares(T(0));
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V d = V::load(a + i, n - i) - V::load(b + i, n - i);
      squares = fma(d, d, squares);
    }
    *total = static_cast<double>(sum(squares));
  }
};

struct ScaledDifference {
  template <class V, class S, class T>
  void run(S* out, const S* a, const S* b, T scale, std::int64_t n, bool accumulate) const {
    const V zero(T(0));
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V before = accumulate ? V::load(out + i, n - i) : zero;
      fma(V::load(a + i, n - i) - V::load(b + i, n - i), V(scale), before).store(out + i, n - i);
    }
  }
};

}  // namespace detail

/// The kernels of the mean of squared differences, summed in blocks, and in fp64 over the blocks in ascending order.
struct MeanSquaredError {
  template <real T>
  static Bytes mean_squared_error_workspace(std::int64_t n) {
    return static_cast<Bytes>((n + block - 1) / block) * sizeof(double);
  }

  template <real T>
  static void mean_squared_error_forward(device::Host::Lane& lane, sum_t<T>* loss, const T* a,
                                         const T* b, std::int64_t n, void* workspace) {
    auto* const parts = static_cast<double*>(workspace);
    device::for_each_block(lane, n, block, [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(detail::SquaredDifference{}, parts + begin / block, a + begin,
                             b + begin, end - begin);
    });
    double total = 0;
    for (std::int64_t part = 0; part * block < n; ++part) total += parts[part];
    *loss = n == 0 ? sum_t<T>(0) : static_cast<sum_t<T>>(total / static_cast<double>(n));
  }

  template <real T>
  static void mean_squared_error_backward(device::Host::Lane& lane, T* d_a, const sum_t<T>* d_loss,
                                          const T* a, const T* b, std::int64_t n, bool accumulate) {
    using E = sum_t<T>;
    if (n == 0) return;
    const E scale = E(2) * *d_loss / static_cast<E>(n);
    device::for_each_block(lane, n, block, [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(detail::ScaledDifference{}, d_a + begin, a + begin, b + begin, scale,
                             end - begin, accumulate);
    });
  }

private:
  // The number of elements of a block, few enough that their fp32 sum has few roundings.
  static constexpr std::int64_t block = 2048;
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
