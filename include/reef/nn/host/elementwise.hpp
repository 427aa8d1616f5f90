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

/// Computes an activation function's output, out = F::value(in).
template <class F>
struct ActivationForward {
  template <class V, class S>
  void run(S* out, const S* in, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; i += V::width) F::value(V::load(in + i, n - i)).store(out + i, n - i);
  }
};

/// Computes an activation function's gradient, d_in = d_out F::slope(in), or adds it to d_in; F::slope is the
/// derivative of F::value.
template <class F>
struct ActivationBackward {
  template <class V, class S>
  void run(S* d_in, const S* d_out, const S* in, std::int64_t n, bool accumulate) const {
    const V zero(typename V::element_type(0));
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V slope = F::slope(V::load(in + i, n - i));
      const V before = accumulate ? V::load(d_in + i, n - i) : zero;
      fma(V::load(d_out + i, n - i), slope, before).store(d_in + i, n - i);
    }
  }
};

/// Runs a kernel on n numbers of each array, in blocks that threads share.
template <real T, class Kernel, class... At>
void run_blocks(device::Host::Lane& lane, std::int64_t n, const Kernel& kernel, At*... at) {
  device::for_each_block(lane, n, device::elementwise_block, [&](auto begin, auto end) {
    device::run_vectors<T>(kernel, (at + begin)..., end - begin);
  });
}
template <real T, class Kernel, class... At>
void run_blocks(device::Host::Lane& lane, std::int64_t n, const Kernel& kernel, bool accumulate, At*... at) {
  device::for_each_block(lane, n, device::elementwise_block, [&](auto begin, auto end) {
    device::run_vectors<T>(kernel, (at + begin)..., end - begin, accumulate);
  });
}

// The constants of gelu(x) = x s(2u), with s the logistic function and 2u = slope x + cubic x^3: the same as x/2 (1 +
// tanh u), without a tanh.
template <class T>
struct GeluConstants {
  static constexpr T slope = T(1.5957691216057307117597842397375);  // the factor of x: 2 sqrt(2 / pi)
  static constexpr T cubic = slope * T(0.044715);
};

struct Gelu {
  template <class V>
  static V value(const V& x) {
    using Constants = GeluConstants<typename V::element_type>;
    const V minus_2u = x * fma(V(-Constants::cubic), x * x, V(-Constants::slope));
    return x / (V(typename V::element_type(1)) + exp(minus_2u));
  }
  template <class V>
  static V slope(const V& x) {
    using T = typename V::element_type;
    using Constants = GeluConstants<T>;
    const V linear(Constants::slope);
    const V one(T(1));
    const V x2 = x * x;
    const V s = one / (one + exp(-(x * fma(V(Constants::cubic), x2, linear))));
    const V ds = s * (one - s) * fma(V(T(3) * Constants::cubic), x2, linear);
    return fma(x, ds, s);
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

/// The kernels of GELU, residual sums and copies on the host, each one pass over memory.
struct Elementwise {
  template <real T>
  static void gelu_forward(device::Host::Lane& lane, T* out, const T* in, std::int64_t n) {
    detail::run_blocks<T>(lane, n, detail::ActivationForward<detail::Gelu>{}, out, in);
  }

  template <real T>
  static void gelu_backward(device::Host::Lane& lane, T* d_in, const T* d_out, const T* in,
                            std::int64_t n, bool accumulate) {
    detail::run_blocks<T>(lane, n, detail::ActivationBackward<detail::Gelu>{}, accumulate, d_in, d_out, in);
  }

  template <real T>
  static void add_forward(device::Host::Lane& lane, T* out, const T* a, const T* b,
                          std::int64_t n) {
    detail::run_blocks<T>(lane, n, detail::Add{}, out, a, b);
  }

  template <real T>
  static void copy_or_add(device::Host::Lane& lane, T* out, const T* in, std::int64_t n,
                          bool accumulate) {
    if (accumulate) {
      add_forward(lane, out, static_cast<const T*>(out), in, n);
    } else if (out != in) {
      detail::run_blocks<T>(lane, n, detail::CopyVectors{}, out, in);
    }
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
