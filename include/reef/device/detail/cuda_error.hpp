#pragma once

#include <string>

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// A CUDA or cuBLASLt call that failed: the call's text, its code and meaning, and the device.
///
/// | state  | the lane that met it runs nothing more; after an error of a kernel the process's whole |
/// |        | context is unusable, and every later call says the same                                |
class CudaError : public Error {
public:
  CudaError(const std::string& text, int code) : Error(text), code_(code) {}

  /// The cudaError_t, or the cublasStatus_t of a cuBLASLt call.
  [[nodiscard]] int code() const { return code_; }

private:
  int code_;
};

}  // namespace device
}  // namespace v0
}  // namespace reef

namespace reef {
inline namespace v0 {
namespace device::detail {

inline std::string cuda_device_text(int ordinal) {
  return ordinal < 0 ? std::string("no particular device") : concat("CUDA device ", ordinal);
}

/// Throws CudaError when `code` is a failure; `call` is the source text of what returned it.
inline void check_cuda(cudaError_t code, const char* call, int ordinal = -1) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // what is reported here is not reported again
  const bool foreign = code == cudaErrorNoKernelImageForDevice;
  throw CudaError(
      concat(
          "reef::device::Cuda: ", call, " failed with ", static_cast<int>(code), " ",
          cudaGetErrorName(code), " (", cudaGetErrorString(code), ") on ",
          cuda_device_text(ordinal),
          foreign ? ".\n  why: this program was compiled for other GPUs alone.\n"
                    "  fix: compile it for this one, or as PTX, e.g. -DCMAKE_CUDA_ARCHITECTURES=75."
                  : ".\n  why: the call itself, or a kernel that ran before it, failed.\n"
                    "  fix: run with CUDA_LAUNCH_BLOCKING=1, so that the failing kernel is the one "
                    "named."),
      static_cast<int>(code));
}

inline void check_cublas(cublasStatus_t status, const char* call, int ordinal) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(concat("reef::device::Cuda: ", call, " failed with ", static_cast<int>(status),
                         " ", cublasLtGetStatusName(status), " (", cublasLtGetStatusString(status),
                         ") on ", cuda_device_text(ordinal), "."),
                  static_cast<int>(status));
}

/// Makes a device the calling thread's current one, and the former one again at the end.
class CudaDeviceScope {
public:
  explicit CudaDeviceScope(int ordinal) {
    check_cuda(cudaGetDevice(&former_), "cudaGetDevice", ordinal);
    if (former_ == ordinal) {
      former_ = -1;
      return;
    }
    check_cuda(cudaSetDevice(ordinal), "cudaSetDevice", ordinal);
  }
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;
  ~CudaDeviceScope() {
    if (former_ >= 0) static_cast<void>(cudaSetDevice(former_));
  }

private:
  int former_ = -1;
};

}  // namespace device::detail
}  // namespace v0
}  // namespace reef
