#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>
#include <reef/nn/cuda/elementwise.cuh>
#include <reef/nn/cuda/packed_rows.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// The logistic function.
template <class E>
__device__ __forceinline__ E logistic(E x) {
  return E(1) / (E(1) + exp(-x));
}

/// silu'(x) = s + x s (1 - s), with s the logistic function.
template <class E>
__device__ __forceinline__ E silu_slope(E x, E s) {
  return s + x * s * (E(1) - s);
}

template <class T>
struct SiluForward {
  __device__ sum_t<T> operator()(std::int64_t /*i*/, T in) const {
    const sum_t<T> x = in;
    return x / (sum_t<T>(1) + exp(-x));
  }
};

template <class T>
struct SiluBackward {
  __device__ sum_t<T> operator()(std::int64_t /*i*/, T d_out, T in) const {
    const sum_t<T> x = in;
    return d_out * silu_slope(x, logistic(x));
  }
};

template <class T>
struct ReluForward {
  __device__ sum_t<T> operator()(std::int64_t /*i*/, T in) const {
    const sum_t<T> x = in;
    return x < sum_t<T>(0) ? sum_t<T>(0) : x;  // a NaN stays one
  }
};

template <class T>
struct ReluBackward {
  __device__ sum_t<T> operator()(std::int64_t /*i*/, T d_out, T in) const {
    return static_cast<sum_t<T>>(in) > sum_t<T>(0) ? static_cast<sum_t<T>>(d_out) : sum_t<T>(0);
  }
};

template <class T>
struct SwiGluForward {
  __device__ sum_t<T> operator()(std::int64_t /*i*/, T gate, T up) const {
    const sum_t<T> x = gate;
    return x / (sum_t<T>(1) + exp(-x)) * up;
  }
};

/// Both gradients of one pass over memory, a thread `width` elements at a time. Each may be null; all of a pack is read
/// before either is written, since d_gate may be d_out.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    swiglu_backward_kernel(T* d_gate, T* d_up, const T* d_out, const T* gate, const T* up,
                           std::int64_t n, bool add_gate, bool add_up, bool packed) {
  using E = sum_t<T>;
  using device::Pack;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto run = [&](std::int64_t i, int width) {
    const auto g = load_channels(d_out + i, width);
    const auto x = load_channels(gate + i, width);
    const auto u = load_channels(up + i, width);
    Pack<T> of_gate;
    Pack<T> of_up;
    if (d_gate != nullptr && add_gate) of_gate = load_channels(d_gate + i, width);
    if (d_up != nullptr && add_up) of_up = load_channels(d_up + i, width);
    for_each_element<T>(width, [&](int e) {
      const E value = x.element[e];
      const E gradient = g.element[e];
      const E s = logistic(value);
      const E to_gate = gradient * u.element[e] * silu_slope(value, s);
      const E to_up = gradient * (value * s);
      of_gate.element[e] = T(add_gate ? of_gate.element[e] + to_gate : to_gate);
      of_up.element[e] = T(add_up ? of_up.element[e] + to_up : to_up);
    });
    if (d_gate != nullptr) store_channels(d_gate + i, of_gate, width);
    if (d_up != nullptr) store_channels(d_up + i, of_up, width);
  };
  const std::int64_t packs = packed ? n / Pack<T>::width : 0;
  for (std::int64_t pack = thread; pack < packs; pack += stride)
    run(pack * Pack<T>::width, Pack<T>::width);
  for (std::int64_t i = packs * Pack<T>::width + thread; i < n; i += stride) run(i, 1);
}

/// SiLU, ReLU and SwiGLU of Kernels<device::Cuda>, in sum_t<T>: one pass over memory each.
struct GatedKernels {
  template <real T>
  static void silu_forward(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t n) {
    device::map(lane, n, out, SiluForward<T>{}, in);
  }

  template <real T>
  static void silu_backward(device::Cuda::Lane& lane, T* d_in, const T* d_out, const T* in,
                            std::int64_t n, bool accumulate) {
    map_or_add(lane, n, d_in, accumulate, SiluBackward<T>{}, d_out, in);
  }

  template <real T>
  static void relu_forward(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t n) {
    device::map(lane, n, out, ReluForward<T>{}, in);
  }

  template <real T>
  static void relu_backward(device::Cuda::Lane& lane, T* d_in, const T* d_out, const T* in,
                            std::int64_t n, bool accumulate) {
    map_or_add(lane, n, d_in, accumulate, ReluBackward<T>{}, d_out, in);
  }

  template <real T>
  static void swiglu_forward(device::Cuda::Lane& lane, T* out, const T* gate, const T* up,
                             std::int64_t n) {
    device::map(lane, n, out, SwiGluForward<T>{}, gate, up);
  }

  template <real T>
  static void swiglu_backward(device::Cuda::Lane& lane, T* d_gate, T* d_up, const T* d_out,
                              const T* gate, const T* up, std::int64_t n, bool add_gate,
                              bool add_up) {
    using device::Pack;
    const bool packed = Pack<T>::at(d_gate) && Pack<T>::at(d_up) && Pack<T>::at(d_out) &&
                        Pack<T>::at(gate) && Pack<T>::at(up);
    const std::int64_t threads = packed ? (std::max)(n / Pack<T>::width, n % Pack<T>::width) : n;
    device::launch(
        lane, "swiglu_backward", &swiglu_backward_kernel<T>,
        std::min<std::int64_t>((threads + device::cuda_block - 1) / device::cuda_block, 1 << 20),
        device::cuda_block, 0, d_gate, d_up, d_out, gate, up, n, add_gate, add_up, packed);
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
