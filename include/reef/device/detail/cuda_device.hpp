#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include <cuda_runtime.h>

#include <reef/core/policy_tag.hpp>
#include <reef/core/text.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/detail/cuda_error.hpp>
#include <reef/device/memory.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// Whether at least one CUDA device answers; if not, `why` says what does not. Never throws.
inline bool cuda_available(std::string* why = nullptr) noexcept {
  int count = 0;  // left alone by a call that fails
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return true;
  static_cast<void>(cudaGetLastError());
  if (why == nullptr) return false;
  try {
    *why = code == cudaSuccess
               ? std::string("the CUDA driver answers, but has no device")
               : concat("no CUDA device answers: ", static_cast<int>(code), " ",
                        cudaGetErrorName(code), " (", cudaGetErrorString(code), ")");
  } catch (...) {
    why->clear();
  }
  return false;
}

/// A CUDA device.
///
/// | memory | cudaMalloc; a budget of Options::memory_bytes for all Buffers together. Not of it are   |
/// |        | PinnedBuffers, the driver's context, and 32 MiB for each lane that multiplies matrices  |
/// | lane   | a host thread and a stream: functions run on the thread and enqueue on the stream       |
/// | thread | all members from any thread; the caller's current device is left as it was              |
/// | errors | MemoryError from allocate; CudaError from the constructor when no such device answers   |
class Cuda {
public:
  using policy_tag = DeviceTag;
  static constexpr std::string_view name = "cuda";
  static constexpr bool on_host = false;

  struct Options {
    int ordinal = 0;         ///< which of the devices that CUDA_VISIBLE_DEVICES leaves
    Bytes memory_bytes = 0;  ///< 0: as much as there is
    /// Memory that is new, freed, or left by a segment that was swapped is NaNs; what crosses segments is not.
    bool poison_freed = false;
  };

  class Buffer;
  class PinnedBuffer;
  class Event;
  class Lane;

  Cuda() : Cuda(Options{}) {}
  explicit Cuda(Options options)
      : options_(options), ledger_(concat("CUDA device ", options.ordinal), options.memory_bytes) {
    std::string why;
    if (!cuda_available(&why)) {
      throw CudaError(concat("reef::device::Cuda: ", why,
                             ".\n  fix: install a driver, or use reef::device::Host."),
                      static_cast<int>(cudaErrorNoDevice));
    }
    detail::check_cuda(cudaGetDeviceProperties(&properties_, options_.ordinal),
                       "cudaGetDeviceProperties", options_.ordinal);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  /// Device memory, aligned to 256 bytes, not initialised. MemoryError when the budget or the
  /// device has no room.
  Buffer allocate(Bytes bytes, std::string_view what);

  /// Page-locked host memory: not part of the budget.
  PinnedBuffer allocate_pinned(Bytes bytes, std::string_view what);

  /// The device's memory is not the host's: messages and files need copies over the link.
  [[nodiscard]] static constexpr bool discrete() { return true; }
  [[nodiscard]] static constexpr bool discrete(const Options& /*options*/) { return true; }

  [[nodiscard]] MemoryReport memory() const { return ledger_.report(); }
  [[nodiscard]] int threads() const { return 1; }
  [[nodiscard]] int ordinal() const { return options_.ordinal; }
  [[nodiscard]] Options options() const { return options_; }
  [[nodiscard]] const cudaDeviceProp& properties() const { return properties_; }

private:
  struct Free;
  struct FreePinned;

  static cudaError_t poison(void* data, Bytes bytes) noexcept {
    const cudaError_t code = cudaMemset(data, 0xFF, static_cast<std::size_t>(bytes));
    return code != cudaSuccess ? code : cudaStreamSynchronize(nullptr);  // lanes do not wait for it
  }

  Options options_;
  MemoryLedger ledger_;
  cudaDeviceProp properties_{};
  std::atomic<int> failed_lanes_{0};
};

}  // namespace device
}  // namespace v0
}  // namespace reef
