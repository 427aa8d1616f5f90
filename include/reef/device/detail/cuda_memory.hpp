#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <cuda_runtime.h>

#include <reef/device/detail/cuda_device.hpp>
#include <reef/device/detail/cuda_error.hpp>
#include <reef/device/detail/owned.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// Gives a Buffer's memory back to the ledger, and to the device.
struct Cuda::Free {
  Cuda* device;
  Bytes bytes;
  std::string what;

  void operator()(void* data) const {
    if (device->options_.poison_freed) static_cast<void>(poison(data, bytes));
    static_cast<void>(cudaFree(data));
    device->ledger_.give_back(bytes, what);
  }
};

struct Cuda::FreePinned {
  Bytes bytes;

  void operator()(void* data) const { static_cast<void>(cudaFreeHost(data)); }
};

/// Device memory that is freed when this goes: the lanes that use it are done by then. Moved from,
/// it is empty.
class Cuda::Buffer : public detail::Owned<Cuda::Free> {
public:
  Buffer() = default;

private:
  friend class Cuda;
  Buffer(void* data, Free free) : Owned(data, std::move(free)) {}
};

/// Page-locked host memory, which the device's copy engines reach. Moved from, it is empty.
class Cuda::PinnedBuffer : public detail::Owned<Cuda::FreePinned> {
public:
  PinnedBuffer() = default;

private:
  friend class Cuda;
  PinnedBuffer(void* data, FreePinned free) : Owned(data, free) {}
};

inline Cuda::Buffer Cuda::allocate(Bytes bytes, std::string_view what) {
  if (bytes == 0) return {};
  Free free{this, bytes, std::string(what)};
  const detail::CudaDeviceScope scope(options_.ordinal);
  ledger_.take(bytes, what);
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (code != cudaSuccess) ledger_.give_back(bytes, what);
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw ledger_.refused(bytes, what, "cudaMalloc finds no room");
  }
  detail::check_cuda(code, "cudaMalloc", options_.ordinal);
  Buffer buffer(data, std::move(free));
  if (options_.poison_freed)
    detail::check_cuda(poison(data, bytes), "cudaMemset", options_.ordinal);
  return buffer;
}

inline Cuda::PinnedBuffer Cuda::allocate_pinned(Bytes bytes, std::string_view what) {
  if (bytes == 0) return {};
  const detail::CudaDeviceScope scope(options_.ordinal);
  void* data = nullptr;
  const cudaError_t code = cudaMallocHost(&data, static_cast<std::size_t>(bytes));
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw ledger_.refused(bytes, what, "cudaMallocHost finds no room");
  }
  detail::check_cuda(code, "cudaMallocHost", options_.ordinal);
  return {data, FreePinned{bytes}};
}

}  // namespace device
}  // namespace v0
}  // namespace reef
