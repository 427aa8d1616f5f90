#pragma once

#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

// gelu(x) = x s(2u) with s the logistic function and 2u = slope x + cubic x^3: the same as
// x/2 (1 + tanh u), without a tanh.
template <class T>
struct GeluConstants {
  static constexpr T slope = T(1.5957691216057307117597842397375);  // 2 sqrt(2 / pi)
  static constexpr T cubic = slope * T(0.044715);
};

struct GeluForward {
  template <class V, class S>
  void run(S* out, const S* in, std::int64_t n) const {
    using T = typename V::element_type;
    const V slope(-GeluConstants<T>::slope);
    const V cubic(-GeluConstants<T>::cubic);
    const V one(T(1));
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V x = V::load(in + i, n - i);
      const V minus_2u = x * fma(cubic, x * x, slope);
      (x / (one + exp(minus_2u))).store(out + i, n - i);
    }
  }
};

struct GeluBackward {
  template <class V, class S>
  void run(S* d_in, const S* d_out, const S* in, std::int64_t n, bool accumulate) const {
    using T = typename V::element_type;
    const V slope(GeluConstants<T>::slope);
    const V cubic(GeluConstants<T>::cubic);
    const V cubic3(T(3) * GeluConstants<T>::cubic);
    const V one(T(1));
    const V zero(T(0));
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V x = V::load(in + i, n - i);
      const V x2 = x * x;
      const V s = one / (one + exp(-(x * fma(cubic, x2, slope))));
      const V ds = s * (one - s) * fma(cubic3, x2, slope);
      const V before = accumulate ? V::load(d_in + i, n - i) : zero;
      fma(V::load(d_out + i, n - i), fma(x, ds, s), before).store(d_in + i, n - i);
    }
  }
};

struct Add {
  template <class V, class S>
  void run(S* out, const S* a, const S* b, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; i += V::width) {
      (V::load(a + i, n - i) + V::load(b + i, n - i)).store(out + i, n - i);
    }
  }
};

struct CopyVectors {
  template <class V, class S>
  void run(S* out, const S* in, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; i += V::width) {
      V::load(in + i, n - i).store(out + i, n - i);
    }
  }
};

}  // namespace detail

/// GELU, residual sums and copies: one pass over memory each.
struct Elementwise {
  template <real T>
  static void gelu_forward(device::Host::Lane& lane, T* out, const T* in, std::int64_t n) {
    device::for_each_block(lane, n, device::elementwise_block, [&](auto begin, auto end) {
      device::run_vectors<T>(detail::GeluForward{}, out + begin, in + begin, end - begin);
    });
  }

  template <real T>
  static void gelu_backward(device::Host::Lane& lane, T* d_in, const T* d_out, const T* in,
                            std::int64_t n, bool accumulate) {
    device::for_each_block(lane, n, device::elementwise_block, [&](auto begin, auto end) {
      device::run_vectors<T>(detail::GeluBackward{}, d_in + begin, d_out + begin, in + begin,
                             end - begin, accumulate);
    });
  }

  template <real T>
  static void add_forward(device::Host::Lane& lane, T* out, const T* a, const T* b,
                          std::int64_t n) {
    device::for_each_block(lane, n, device::elementwise_block, [&](auto begin, auto end) {
      device::run_vectors<T>(detail::Add{}, out + begin, a + begin, b + begin, end - begin);
    });
  }

  template <real T>
  static void copy_or_add(device::Host::Lane& lane, T* out, const T* in, std::int64_t n,
                          bool accumulate) {
    if (accumulate) {
      add_forward(lane, out, static_cast<const T*>(out), in, n);
    } else if (out != in) {
      device::for_each_block(lane, n, device::elementwise_block, [&](auto begin, auto end) {
        device::run_vectors<T>(detail::CopyVectors{}, out + begin, in + begin, end - begin);
      });
    }
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
