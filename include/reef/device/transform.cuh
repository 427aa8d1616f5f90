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

/// rule(at) for every element of [0, n): what the host does by vectors (transform.hpp), one element in
/// each of the device's threads. A rule computes in sum_t<T>, whatever the arrays hold.
template <class T, class Rule>
void transform_vectors(Cuda::Lane& lane, std::int64_t n, const Rule& rule) {
  for_each_index(lane, n, detail::RuleOfElement<T, Rule>{rule});
}

namespace detail {

/// sums[p] = sum of x[i]^2 over part p, a block a part.
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

/// sums[p] = sum of x[i]^2 over block p of [0, n), the last one shorter.
///
/// | shape | x: (n,); sums: (ceil(n / part),), both in device memory |
/// | order | within a part fixed by `part` alone, in fp64            |
template <real T>
void block_sums_of_squares(Cuda::Lane& lane, std::int64_t n, const T* x, double* sums,
                           std::int64_t part = 4096) {
  launch(lane, "block_sums_of_squares", &detail::sums_of_squares_kernel<T>, (n + part - 1) / part,
         cuda_block, 0, n, part, x, sums);
}

}  // namespace device
}  // namespace v0
}  // namespace reef
