#pragma once

#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/launch.cuh>
#include <reef/device/transform.hpp>

namespace reef {
inline namespace v0 {
namespace device {

namespace detail {

template <class T, class Rule>
struct RuleOfElement {
  Rule rule;
  __device__ void operator()(std::int64_t i) const { rule(ElementAt<sum_t<T>>{i}); }
};

}  // namespace detail

/// Calls rule(at) for every element of [0, n), each in its own thread of the device, where the
/// host uses vectors (transform.hpp). A rule computes in sum_t<T>, whatever type the arrays have.
template <class T, class Rule>
void transform_vectors(Cuda::Lane& lane, std::int64_t n, const Rule& rule) {
  for_each_index(lane, n, detail::RuleOfElement<T, Rule>{rule});
}

namespace detail {

/// Sets sums[p] to the sum of x[i]^2 over part p of [0, n), with one block of threads for each part.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(cuda_block)
    sums_of_squares_kernel(std::int64_t n, std::int64_t part, const T* x, double* sums) {
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

/// Sets sums[p] to the sum of x[i]^2 over the p-th `part` elements of [0, n), the last ones fewer.
///
/// | shape | x: (n,); sums: (ceil(n / part),), both in device memory           |
/// | order | the order of additions in a part depends on `part` alone; in fp64 |
template <real T>
void block_sums_of_squares(Cuda::Lane& lane, std::int64_t n, const T* x, double* sums,
                           std::int64_t part = 4096) {
  launch(lane, "block_sums_of_squares", &detail::sums_of_squares_kernel<T>, (n + part - 1) / part,
         cuda_block, 0, n, part, x, sums);
}

}  // namespace device
}  // namespace v0
}  // namespace reef
