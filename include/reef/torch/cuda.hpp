#pragma once

/// \file
/// Runs libtorch modules on a GPU: Module and data_parallel on device::Cuda. Needs a libtorch that was built with CUDA,
/// so it is not part of reef/torch.hpp.

#if !__has_include(<c10/cuda/CUDAStream.h>)
#error \
"reef/torch/cuda.hpp: this libtorch was built without CUDA. fix: one with it, or modules on device::Host \
(reef/torch.hpp)."
#endif

#include <cstdlib>
#include <string_view>

#include <ATen/cuda/CUDAContext.h>
#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/device/cuda.hpp>
#include <reef/torch/detail/place.hpp>
#include <reef/torch/module.hpp>

namespace reef {
inline namespace v0 {
namespace torch::detail {

/// The functions by which libtorch's operations run on the CUDA stream of a queue (lane).
template <>
struct Place<device::Cuda> {
  static constexpr c10::DeviceType type = c10::kCUDA;

  template <class F>
  static void run(device::Cuda::Lane& lane, const F& function) {
    const c10::cuda::CUDAStream stream =
        c10::cuda::getStreamFromExternal(lane.stream(), device(lane.device().options()).index());
    const c10::cuda::CUDAStreamGuard guard(stream);
    // Creates the handle, so that its workspace does not count as a tensor of a call.
    at::cuda::getCurrentCUDABlasHandle();
    function(stream.device());
  }

  static at::Device device(const device::Cuda::Options& options) {
    return {type, static_cast<c10::DeviceIndex>(options.ordinal)};
  }

  /// Frees libtorch's cache after a trial: the cache belongs to one stream, and Reef's own cudaMalloc cannot use it.
  static void release() { c10::cuda::CUDACachingAllocator::emptyCache(); }

  static void require_settings() {
    const char* const text = std::getenv("CUBLAS_WORKSPACE_CONFIG");
    const std::string_view set = text == nullptr ? "" : text;
    if (set == ":4096:8" || set == ":16:8") return;
    throw OptionError("reef::torch: the environment variable CUBLAS_WORKSPACE_CONFIG is '", set, "'.\n",
                      "  why: libtorch refuses products on a GPU whose bits might differ at a second call.\n",
                      "  fix: :4096:8, before the process first uses CUDA; or ModuleOptions::deterministic = false.");
  }
};

}  // namespace torch::detail
}  // namespace v0
}  // namespace reef

namespace reef {
inline namespace v0 {
namespace torch {

static_assert(graph::operator_for<Module, device::Cuda, float>);
static_assert(graph::operator_for<Module, device::Cuda, double>);
static_assert(graph::operator_for<Module, device::Cuda, Bfloat16>);

}  // namespace torch
}  // namespace v0
}  // namespace reef
