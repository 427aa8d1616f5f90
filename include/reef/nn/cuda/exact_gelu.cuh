#pragma once

#include <cmath>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/map.cuh>
#include <reef/nn/cuda/elementwise.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// Returns the part of a normal distribution that lies below x, (1 + erf(x / sqrt(2))) / 2.
template <class E>
__device__ __forceinline__ E normal_below(E x) {
  return E(0.5) * erfc(x * E(-0.70710678118654752440));
}

template <class T>
struct ExactGeluForward {
  __device__ sum_t<T> operator()(std::int64_t /*i*/, T in) const {
    const sum_t<T> x = in;
    return x * normal_below(x);
  }
};

/// The derivative of GELU by the error function, P(x) + x p(x), with P the part below x and p the density.
template <class T>
struct ExactGeluBackward {
  using E = sum_t<T>;

  __device__ E operator()(std::int64_t /*i*/, T d_out, T in) const {
    const E x = in;
    return d_out * (normal_below(x) + x * (E(0.39894228040143267794) * exp(E(-0.5) * x * x)));
  }
};

/// GELU by the error function of Kernels<device::Cuda>, in sum_t<T>: one pass over memory each.
struct ExactGeluKernels {
  template <real T>
  static void exact_gelu_forward(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t n) {
    device::map(lane, n, out, ExactGeluForward<T>{}, in);
  }

  template <real T>
  static void exact_gelu_backward(device::Cuda::Lane& lane, T* d_in, const T* d_out, const T* in, std::int64_t n,
                                  bool accumulate) {
    map_or_add(lane, n, d_in, accumulate, ExactGeluBackward<T>{}, d_out, in);
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
