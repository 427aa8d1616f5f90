#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <cuda_runtime.h>

#include <reef/device/detail/cuda_device.hpp>
#include <reef/device/detail/cuda_error.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// Device memory that is freed when this goes: the lanes that use it are done by then. Moved from,
/// it is empty.
class Cuda::Buffer {
public:
  Buffer() = default;

  [[nodiscard]] void* data() const& { return memory_.get(); }
  void data() const&& = delete;
  [[nodiscard]] Bytes bytes() const { return memory_ ? memory_.get_deleter().bytes : 0; }

private:
  friend class Cuda;

  struct Release {
    Cuda* device;
    Bytes bytes;
    std::string what;

    void operator()(void* data) const {
      if (device->options_.poison_freed) static_cast<void>(poison(data, bytes));
      static_cast<void>(cudaFree(data));
      device->ledger_.give_back(bytes, what);
    }
  };

  Buffer(void* data, Release release) : memory_(data, std::move(release)) {}

  std::unique_ptr<void, Release> memory_;
};

/// Page-locked host memory, which the device's copy engines reach. Moved from, it is empty.
class Cuda::PinnedBuffer {
public:
  PinnedBuffer() = default;

  [[nodiscard]] void* data() const& { return memory_.get(); }
  void data() const&& = delete;
  [[nodiscard]] Bytes bytes() const { return memory_ ? memory_.get_deleter().bytes : 0; }

private:
  friend class Cuda;

  struct Release {
    Bytes bytes;

    void operator()(void* data) const { static_cast<void>(cudaFreeHost(data)); }
  };

  PinnedBuffer(void* data, Bytes bytes) : memory_(data, Release{bytes}) {}

  std::unique_ptr<void, Release> memory_;
};

inline Cuda::Buffer Cuda::allocate(Bytes bytes, std::string_view what) {
  if (bytes == 0) return {};
  Buffer::Release release{this, bytes, std::string(what)};
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
  Buffer buffer(data, std::move(release));
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
  return {data, bytes};
}

}  // namespace device
}  // namespace v0
}  // namespace reef
