#pragma once

#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

inline constexpr std::int64_t squared_error_part = 4096;  // differences that a block sums up

/// parts[p] = the sum of (a - b)^2 over part p, of squared_error_part elements, in fp64. Each block takes one part.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    squared_error_parts_kernel(double* parts, const T* a, const T* b, std::int64_t n) {
  const std::int64_t begin = blockIdx.x * squared_error_part;
  const std::int64_t end = begin + squared_error_part < n ? begin + squared_error_part : n;
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += device::cuda_block) {
    const sum_t<T> difference = a[i] - b[i];
    const auto wide = static_cast<double>(difference);
    sum += wide * wide;
  }
  sum = device::block_sum<device::cuda_block>(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

/// loss = the sum of the parts / n, or 0 where there are no differences. One block.
template <class E>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    squared_error_mean_kernel(E* loss, const double* parts, std::int64_t count, std::int64_t n) {
  double sum = 0;
  for (std::int64_t part = threadIdx.x; part < count; part += device::cuda_block)
    sum += parts[part];
  sum = device::block_sum<device::cuda_block>(sum);
  if (threadIdx.x == 0) *loss = n == 0 ? E(0) : static_cast<E>(sum / static_cast<double>(n));
}

/// d_a = 2 (a - b) d_loss / n, with d_loss in device memory.
template <class T>
struct SquaredErrorGradient {
  const sum_t<T>* d_loss;
  std::int64_t n;

  __device__ sum_t<T> operator()(std::int64_t /*i*/, T a, T b) const {
    return (a - b) * (sum_t<T>(2) * *d_loss / static_cast<sum_t<T>>(n));
  }
  __device__ sum_t<T> operator()(std::int64_t i, T a, T b, T former) const {
    return former + (*this)(i, a, b);
  }
};

/// The mean squared error of Kernels<device::Cuda>, summed in fp64 in an order that n alone fixes.
struct MeanSquaredErrorKernels {
  template <real T>
  static constexpr Bytes mean_squared_error_workspace(std::int64_t n) {
    return static_cast<Bytes>(parts_of(n)) * sizeof(double);
  }

  template <real T>
  static void mean_squared_error_forward(device::Cuda::Lane& lane, sum_t<T>* loss, const T* a,
                                         const T* b, std::int64_t n, void* workspace) {
    auto* const parts = static_cast<double*>(workspace);
    device::launch(lane, "mean_squared_error (parts)", &squared_error_parts_kernel<T>, parts_of(n),
                   device::cuda_block, 0, parts, a, b, n);
    device::launch(lane, "mean_squared_error (mean)", &squared_error_mean_kernel<sum_t<T>>, 1,
                   device::cuda_block, 0, loss, parts, parts_of(n), n);
  }

  template <real T>
  static void mean_squared_error_backward(device::Cuda::Lane& lane, T* d_a, const sum_t<T>* d_loss,
                                          const T* a, const T* b, std::int64_t n, bool accumulate) {
    const SquaredErrorGradient<T> gradient{d_loss, n};
    if (accumulate) {
      device::map(lane, n, d_a, gradient, a, b, static_cast<const T*>(d_a));
    } else {
      device::map(lane, n, d_a, gradient, a, b);
    }
  }

private:
  static constexpr std::int64_t parts_of(std::int64_t n) {
    return (n + squared_error_part - 1) / squared_error_part;
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
