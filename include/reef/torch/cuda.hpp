#pragma once

/// \file
/// libtorch modules on a GPU: Module and data_parallel on device::Cuda. It needs a libtorch that was built with CUDA, and is
/// not part of reef/torch.hpp.

#include <c10/core/Device.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <reef/device/cuda.hpp>
#include <reef/torch/detail/place.hpp>

namespace reef::inline v0::torch::detail {

/// libtorch's operations run on the lane's stream.
template <>
struct Place<device::Cuda> {
  static constexpr c10::DeviceType type = c10::kCUDA;

  template <class F>
  static void run(device::Cuda::Lane& lane, const F& function) {
    const auto ordinal = static_cast<c10::DeviceIndex>(lane.device().ordinal());
    const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromExternal(lane.stream(), ordinal);
    const c10::cuda::CUDAStreamGuard guard(stream);
    function(stream.device());
  }
};

}  // namespace reef::inline v0::torch::detail
