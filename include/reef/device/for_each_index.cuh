#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>

namespace reef {
inline namespace v0 {
namespace device {

namespace detail {

// F may be a type of one file only, whose kernel is hidden anyway: no word about that.
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1407
template <class F>
REEF_HIDDEN __global__ void __launch_bounds__(cuda_block)
    for_each_index_kernel(std::int64_t n, F function) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    function(i);
  }
}
#pragma nv_diagnostic pop

}  // namespace detail

/// Calls function(i) for every i in [0, n), in no particular order, by a kernel on the lane.
///
/// | function | copied to the device: a struct with a REEF_HOST_DEVICE operator() const, or with |
/// |          | nvcc's --extended-lambda a `[=] __device__` lambda                               |
template <class F>
void for_each_index(Cuda::Lane& lane, std::int64_t n, F function) {
  const std::int64_t blocks = std::min<std::int64_t>((n + cuda_block - 1) / cuda_block, 1 << 20);
  launch(lane, "for_each_index", &detail::for_each_index_kernel<F>, blocks, cuda_block, 0, n,
         function);
}

}  // namespace device
}  // namespace v0
}  // namespace reef
