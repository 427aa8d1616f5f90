#pragma once

#include <cmath>
#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/random.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>

namespace reef::inline v0::nn::cuda {

/// gelu(x) = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3).
template <class T>
struct GeluForward {
  using E = sum_t<T>;
  T* out;
  const T* in;

  __device__ void operator()(std::int64_t i) const {
    const E x = in[i];
    const E u = E(0.79788456080286535588) * (x + E(0.044715) * x * x * x);
    out[i] = T(E(0.5) * x * (E(1) + tanh(u)));
  }
};

/// gelu'(x) = (1 + tanh(u))/2 + x/2 (1 - tanh(u)^2) u'.
template <class T>
struct GeluBackward {
  using E = sum_t<T>;
  T* d_in;
  const T* d_out;
  const T* in;
  bool accumulate;

  __device__ void operator()(std::int64_t i) const {
    const E x = in[i];
    const E u = E(0.79788456080286535588) * (x + E(0.044715) * x * x * x);
    const E t = tanh(u);
    const E slope = E(0.79788456080286535588) * (E(1) + E(3 * 0.044715) * x * x);
    const E gradient = d_out[i] * (E(0.5) * (E(1) + t) + E(0.5) * x * (E(1) - t * t) * slope);
    d_in[i] = T(accumulate ? d_in[i] + gradient : gradient);
  }
};

template <class T>
struct AddForward {
  T* out;
  const T* a;
  const T* b;

  __device__ void operator()(std::int64_t i) const { out[i] = T(a[i] + b[i]); }
};

template <class T>
struct CopyOrAdd {
  T* out;
  const T* in;
  bool accumulate;

  __device__ void operator()(std::int64_t i) const {
    out[i] = accumulate ? T(out[i] + in[i]) : in[i];
  }
};

/// What dropout multiplies element `index` of a sample by: 0, or scale = 1 / (1 - rate).
template <class E>
__device__ __forceinline__ E dropout_factor(const DrawKey& key, std::int64_t index, float rate,
                                            E scale) {
  return uniform(key, static_cast<std::uint64_t>(index)) >= rate ? scale : E(0);
}

template <class T>
struct Dropout {
  T* out;
  const T* in;
  std::int64_t per_sample;
  float rate;
  sum_t<T> scale;
  DrawKey key;
  bool accumulate;

  __device__ void operator()(std::int64_t i) const {
    DrawKey sample_key = key;
    sample_key.sample += static_cast<std::uint64_t>(i / per_sample);
    const sum_t<T> value = in[i] * dropout_factor(sample_key, i % per_sample, rate, scale);
    out[i] = T(accumulate ? out[i] + value : value);
  }
};

/// What Kernels<device::Cuda> does element by element, in sum_t<T>.
struct ElementwiseKernels {
  template <real T>
  static void gelu_forward(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t n) {
    device::for_each_index(lane, n, GeluForward<T>{out, in});
  }

  template <real T>
  static void gelu_backward(device::Cuda::Lane& lane, T* d_in, const T* d_out, const T* in,
                            std::int64_t n, bool accumulate) {
    device::for_each_index(lane, n, GeluBackward<T>{d_in, d_out, in, accumulate});
  }

  template <real T>
  static void add_forward(device::Cuda::Lane& lane, T* out, const T* a, const T* b,
                          std::int64_t n) {
    device::for_each_index(lane, n, AddForward<T>{out, a, b});
  }

  template <real T>
  static void copy_or_add(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t n,
                          bool accumulate) {
    if (out == in && !accumulate) return;
    device::for_each_index(lane, n, CopyOrAdd<T>{out, in, accumulate});
  }

  /// The same bits are kept as on the host: element i of sample s asks draw (key with s, i).
  template <real T>
  static void dropout(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t per_sample,
                      std::int64_t samples, float rate, DrawKey key, bool accumulate) {
    if (rate <= 0.0F) return copy_or_add(lane, out, in, per_sample * samples, accumulate);
    using E = sum_t<T>;
    const E scale = E(1) / (E(1) - static_cast<E>(rate));
    device::for_each_index(lane, per_sample * samples,
                           Dropout<T>{out, in, per_sample, rate, scale, key, accumulate});
  }
};

}  // namespace reef::inline v0::nn::cuda
