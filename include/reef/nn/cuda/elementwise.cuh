#pragma once

#include <cmath>
#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/random.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/map.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// A function of elements, added to the element that was there before.
template <class F>
struct Added {
  F function;

  template <class T, class... In>
  __device__ auto operator()(std::int64_t i, T former, In... in) const {
    return former + function(i, in...);
  }
};

/// Computes out[i] = function(i, in[i]...), or adds that to out[i], as device::map does.
template <class T, class F, class... In>
void map_or_add(device::Cuda::Lane& lane, std::int64_t n, T* out, bool accumulate, F function, const In*... in) {
  if (accumulate) {
    device::map(lane, n, out, Added<F>{function}, static_cast<const T*>(out), in...);
  } else {
    device::map(lane, n, out, function, in...);
  }
}

/// Returns q in gelu(x) = x q: 1 / (1 + exp(-2 u)), with u = sqrt(2/pi) (x + 0.044715 x^3).
template <class E>
__device__ __forceinline__ E gelu_share(E x) {
  return E(1) / (E(1) + exp(E(-2 * 0.79788456080286535588) * (x + E(0.044715) * x * x * x)));
}

template <class T>
struct GeluForward {
  using E = sum_t<T>;

  __device__ E operator()(std::int64_t /*i*/, T in) const {
    const E x = in;
    return x * gelu_share(x);
  }
};

/// The derivative of GELU, gelu'(x) = q + 2 x q (1 - q) u', with q and u as in gelu_share.
template <class T>
struct GeluBackward {
  using E = sum_t<T>;

  __device__ E operator()(std::int64_t /*i*/, T d_out, T in) const {
    const E x = in;
    const E q = gelu_share(x);
    const E slope = E(0.79788456080286535588) * (E(1) + E(3 * 0.044715) * x * x);
    return d_out * (q + E(2) * x * q * (E(1) - q) * slope);
  }
};

template <class T>
struct Add {
  __device__ sum_t<T> operator()(std::int64_t /*i*/, T a, T b) const { return a + b; }
};

/// Returns the factor by which dropout multiplies element `index` of a sample: 0, or 1 / (1 - rate).
template <class E>
__device__ __forceinline__ E dropout_factor(const DrawKey& key, std::int64_t index, float rate,
                                            E scale) {
  return uniform(key, static_cast<std::uint64_t>(index)) >= rate ? scale : E(0);
}

template <class T>
struct Dropout {
  std::int64_t per_sample;
  float rate;
  sum_t<T> scale;
  DrawKey key;

  __device__ sum_t<T> operator()(std::int64_t i, T in) const {
    DrawKey sample_key = key;
    sample_key.sample += static_cast<std::uint64_t>(i / per_sample);
    return in * dropout_factor(sample_key, i % per_sample, rate, scale);
  }
};

/// The elementwise members of Kernels<device::Cuda>, which compute in sum_t<T>.
struct ElementwiseKernels {
  template <real T>
  static void gelu_forward(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t n) {
    device::map(lane, n, out, GeluForward<T>{}, in);
  }

  template <real T>
  static void gelu_backward(device::Cuda::Lane& lane, T* d_in, const T* d_out, const T* in,
                            std::int64_t n, bool accumulate) {
    map_or_add(lane, n, d_in, accumulate, GeluBackward<T>{}, d_out, in);
  }

  template <real T>
  static void add_forward(device::Cuda::Lane& lane, T* out, const T* a, const T* b,
                          std::int64_t n) {
    device::map(lane, n, out, Add<T>{}, a, b);
  }

  template <real T>
  static void copy_or_add(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t n,
                          bool accumulate) {
    if (accumulate) {
      device::map(lane, n, out, Add<T>{}, static_cast<const T*>(out), in);
    } else if (out != in) {
      lane.copy(out, in, static_cast<Bytes>(n) * sizeof(T), device::Copy::on_device);
    }
  }

  /// Keeps the same elements as the host does: element i of sample s uses draw i of the key of sample s.
  template <real T>
  static void dropout(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t per_sample,
                      std::int64_t samples, float rate, DrawKey key, bool accumulate) {
    if (rate <= 0.0F) return copy_or_add(lane, out, in, per_sample * samples, accumulate);
    using E = sum_t<T>;
    const Dropout<T> function{per_sample, rate, E(1) / (E(1) - static_cast<E>(rate)), key};
    map_or_add(lane, per_sample * samples, out, accumulate, function, in);
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
