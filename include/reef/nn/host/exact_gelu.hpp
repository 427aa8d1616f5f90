#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/elementwise.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// Returns the normal distribution function at x, (1 + erf(x / sqrt(2))) / 2, with an absolute error below 2^-23; NaN
/// gives NaN. With t = |x| / sqrt(2), erf(t) is a polynomial for t below 475/512, and 1 - exp(p(t)), p a polynomial,
/// above.
template <class Isa>
REEF_ALWAYS_INLINE device::Vector<float, Isa> normal_below(const device::Vector<float, Isa>& x) {
  using V = device::Vector<float, Isa>;
  const V zero(0.0F);
  const V half(0.5F);
  const V t = larger(-x, x) * V(0.70710678F);  // max(-x, x) keeps a NaN of x
  const V t2 = t * t;
  V inside(-5.96761703e-4F);
  inside = fma(inside, t2, V(4.99119423e-3F));
  inside = fma(inside, t2, V(-2.67681349e-2F));
  inside = fma(inside, t2, V(1.12819925e-1F));
  inside = fma(inside, t2, V(-3.76125336e-1F));
  inside = fma(inside, t2, V(1.28379166e-1F));
  inside = fma(inside, t, t);  // erf(t)
  V outside = fma(V(-1.72853470e-5F), t, V(3.83197126e-4F));
  outside = fma(outside, t2, fma(V(-3.88396438e-3F), t, V(2.42546219e-2F)));
  outside = fma(outside, t, V(-1.06777877e-1F));
  outside = fma(outside, t, V(-6.34846687e-1F));
  outside = fma(outside, t, V(-1.28717512e-1F));
  outside = fma(outside, t, -t);  // ln(1 - erf(t))
  const V tail = select_less(t, V(0.927734375F), fma(-half, inside, half), exp(outside) * half);
  return select_less(x, zero, tail, V(1.0F) - tail);
}

template <class Isa>
device::Vector<double, Isa> normal_below(const device::Vector<double, Isa>& x) {
  double lanes[device::Vector<double, Isa>::width];
  x.store(lanes);
  for (double& lane : lanes) lane = std::erfc(-lane / std::numbers::sqrt2) / 2;
  return device::Vector<double, Isa>::load(lanes);
}

// GELU by the error function, x P(x), and its derivative P(x) + x p(x), with P the normal distribution function and p
// its density.
struct ExactGelu {
  template <class V>
  static V value(const V& x) {
    return x * normal_below(x);
  }
  template <class V>
  static V slope(const V& x) {
    using T = typename V::element_type;
    const V highest(T(0.39894228040143267793994605993438));  // 1 / sqrt(2 pi)
    const V density = exp(x * x * V(T(-0.5))) * highest;
    return fma(x, density, normal_below(x));
  }
};

}  // namespace detail

/// The kernels of GELU by the error function on the host, each one pass over memory.
struct ExactGelu {
  template <real T>
  static void exact_gelu_forward(device::Host::Lane& lane, T* out, const T* in, std::int64_t n) {
    detail::run_blocks<T>(lane, n, detail::ActivationForward<detail::ExactGelu>{}, out, in);
  }

  template <real T>
  static void exact_gelu_backward(device::Host::Lane& lane, T* d_in, const T* d_out, const T* in, std::int64_t n,
                                  bool accumulate) {
    detail::run_blocks<T>(lane, n, detail::ActivationBackward<detail::ExactGelu>{}, accumulate, d_in, d_out, in);
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
