#pragma once

#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/elementwise.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

// SiLU, x s, with s the logistic function of x, and its derivative s + x s (1 - s).
struct Silu {
  template <class V>
  static V value(const V& x) {
    return x / (V(typename V::element_type(1)) + exp(-x));
  }
  template <class V>
  static V slope(const V& x) {
    const V one(typename V::element_type(1));
    const V s = one / (one + exp(-x));
    return fma(x * s, one - s, s);
  }
};

struct ReluForward {
  template <class V, class S>
  void run(S* out, const S* in, std::int64_t n) const {
    using T = typename V::element_type;
    const V zero(T(0));
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V x = V::load(in + i, n - i);
      select_less(x, zero, zero, x).store(out + i, n - i);  // keeps a NaN
    }
  }
};

struct ReluBackward {
  template <class V, class S>
  void run(S* d_in, const S* d_out, const S* in, std::int64_t n, bool accumulate) const {
    using T = typename V::element_type;
    const V zero(T(0));
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V d = select_less(zero, V::load(in + i, n - i), V::load(d_out + i, n - i), zero);
      (accumulate ? V::load(d_in + i, n - i) + d : d).store(d_in + i, n - i);
    }
  }
};

struct SwiGluForward {
  template <class V, class S>
  void run(S* out, const S* gate, const S* up, std::int64_t n) const {
    using T = typename V::element_type;
    const V one(T(1));
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V x = V::load(gate + i, n - i);
      (x / (one + exp(-x)) * V::load(up + i, n - i)).store(out + i, n - i);
    }
  }
};

// A function that computes the gradients of SwiGLU's two inputs; a pointer is null if its gradient is not wanted. It
// reads a whole vector of all operands before it writes one, so a gradient may have the memory of an operand.
struct SwiGluBackward {
  template <class V, class S>
  void run(S* d_gate, S* d_up, const S* d_out, const S* gate, const S* up, std::int64_t n,
           bool add_gate, bool add_up) const {
    using T = typename V::element_type;
    const V one(T(1));
    const V zero(T(0));
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V x = V::load(gate + i, n - i);
      const V u = V::load(up + i, n - i);
      const V g = V::load(d_out + i, n - i);
      const V s = one / (one + exp(-x));
      if (d_gate != nullptr) {
        const V before = add_gate ? V::load(d_gate + i, n - i) : zero;
        fma(g * u, fma(x * s, one - s, s), before).store(d_gate + i, n - i);
      }
      if (d_up != nullptr) {
        const V before = add_up ? V::load(d_up + i, n - i) : zero;
        fma(g, x * s, before).store(d_up + i, n - i);
      }
    }
  }
};

}  // namespace detail

/// The kernels of SiLU, ReLU and SwiGLU on the host, each one pass over memory.
struct Gated {
  template <real T>
  static void silu_forward(device::Host::Lane& lane, T* out, const T* in, std::int64_t n) {
    detail::run_blocks<T>(lane, n, detail::ActivationForward<detail::Silu>{}, out, in);
  }

  template <real T>
  static void silu_backward(device::Host::Lane& lane, T* d_in, const T* d_out, const T* in,
                            std::int64_t n, bool accumulate) {
    detail::run_blocks<T>(lane, n, detail::ActivationBackward<detail::Silu>{}, accumulate, d_in, d_out, in);
  }

  template <real T>
  static void relu_forward(device::Host::Lane& lane, T* out, const T* in, std::int64_t n) {
    detail::run_blocks<T>(lane, n, detail::ReluForward{}, out, in);
  }

  template <real T>
  static void relu_backward(device::Host::Lane& lane, T* d_in, const T* d_out, const T* in,
                            std::int64_t n, bool accumulate) {
    detail::run_blocks<T>(lane, n, detail::ReluBackward{}, accumulate, d_in, d_out, in);
  }

  template <real T>
  static void swiglu_forward(device::Host::Lane& lane, T* out, const T* gate, const T* up,
                             std::int64_t n) {
    detail::run_blocks<T>(lane, n, detail::SwiGluForward{}, out, gate, up);
  }

  template <real T>
  static void swiglu_backward(device::Host::Lane& lane, T* d_gate, T* d_up, const T* d_out,
                              const T* gate, const T* up, std::int64_t n, bool add_gate,
                              bool add_up) {
    device::for_each_block(lane, n, device::elementwise_block, [&](auto begin, auto end) {
      device::run_vectors<T>(detail::SwiGluBackward{}, d_gate == nullptr ? nullptr : d_gate + begin,
                             d_up == nullptr ? nullptr : d_up + begin, d_out + begin, gate + begin,
                             up + begin, end - begin, add_gate, add_up);
    });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
