#pragma once

#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/launch.cuh>

namespace reef::inline v0::device {

/// kernel(i) for every i in [0, n): a kernel that vectors of the host run as kernel.run<V>(begin, end)
/// does one element in each of the device's threads.
template <class Kernel>
void transform_vectors(Cuda::Lane& lane, std::int64_t n, const Kernel& kernel) {
  for_each_index(lane, n, kernel);
}

namespace detail {

/// sums[p] = sum of x[i]^2 over part p, a block a part.
template <class T>
REEF_HIDDEN __global__ void sums_of_squares_kernel(std::int64_t n, std::int64_t part, const T* x,
                                                   double* sums) {
  const std::int64_t begin = blockIdx.x * part;
  const std::int64_t end = begin + part < n ? begin + part : n;
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += cuda_block) {
    const auto value = static_cast<double>(x[i]);
    sum += value * value;
  }
  sum = block_sum<cuda_block>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace detail

/// sums[p] = sum of x[i]^2 over part p of [0, n), parts of `part` elements, the last one shorter.
///
/// | shape | x: (n,); sums: (ceil(n / part),), both in device memory |
/// | order | within a part fixed by `part` alone, in fp64            |
template <real T>
void block_sums_of_squares(Cuda::Lane& lane, std::int64_t n, std::int64_t part, const T* x,
                           double* sums) {
  launch(lane, "block_sums_of_squares", &detail::sums_of_squares_kernel<T>, (n + part - 1) / part,
         cuda_block, 0, n, part, x, sums);
}

}  // namespace reef::inline v0::device
