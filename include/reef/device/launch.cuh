#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include <reef/core/config.hpp>
#include <reef/device/cuda.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// The number of threads of a block, for kernels that do not need another number.
inline constexpr int cuda_block = 256;

/// The number of threads of a warp, on every device that CUDA 13 supports.
inline constexpr int cuda_warp = 32;

/// Enqueues a kernel on the lane's stream. Throws CudaError, which names `what`, when it cannot start.
///
/// | blocks | 0 to 2^31 - 1; 0 enqueues nothing                                                |
/// | shared | bytes of dynamic shared memory; above 48 KiB the kernel's limit is raised first  |
template <class... Parameters, class... Arguments>
void launch(Cuda::Lane& lane, const char* what, void (*kernel)(Parameters...), std::int64_t blocks,
            int threads, std::size_t shared, Arguments... arguments) {
  if (blocks <= 0) return;
  const int ordinal = lane.device().ordinal();
  if (blocks > 0x7fffffff) {
    detail::check_cuda(cudaErrorInvalidConfiguration, what, ordinal);
  }
  if (shared > 48 * 1024) {
    detail::check_cuda(
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
        what, ordinal);
  }
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared, lane.stream()>>>(
      static_cast<Parameters>(arguments)...);
  detail::check_cuda(cudaGetLastError(), what, ordinal);
}

/// Returns the sum over the 32 lanes of a warp, in every lane; all 32 must call it.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int offset = cuda_warp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}

/// Returns the sum over a block of `Threads` threads, in every thread; all of them must call it.
///
/// | order | fixed: a butterfly in each warp, then the warps' sums ascending |
template <int Threads, class T>
__device__ __forceinline__ T block_sum(T value) {
  static_assert(Threads % cuda_warp == 0 && Threads <= 1024,
                "reef::device::block_sum<Threads>: Threads is a multiple of 32, at most 1024.");
  __shared__ T partial[Threads / cuda_warp];
  value = warp_sum(value);
  __syncthreads();  // the sums of a former call have been read
  if (threadIdx.x % cuda_warp == 0) partial[threadIdx.x / cuda_warp] = value;
  __syncthreads();
  T sum = partial[0];
#pragma unroll
  for (int warp = 1; warp < Threads / cuda_warp; ++warp) sum += partial[warp];
  return sum;
}

/// Returns the maximum over a block of `Threads` threads, in every thread;
/// all of them must call it. Ignores NaN unless every value is NaN.
template <int Threads, class T>
__device__ __forceinline__ T block_max(T value) {
  static_assert(Threads % cuda_warp == 0 && Threads <= 1024,
                "reef::device::block_max<Threads>: Threads is a multiple of 32, at most 1024.");
  __shared__ T partial[Threads / cuda_warp];
#pragma unroll
  for (int offset = cuda_warp / 2; offset > 0; offset /= 2) {
    value = fmax(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  __syncthreads();
  if (threadIdx.x % cuda_warp == 0) partial[threadIdx.x / cuda_warp] = value;
  __syncthreads();
  T largest = partial[0];
#pragma unroll
  for (int warp = 1; warp < Threads / cuda_warp; ++warp) largest = fmax(largest, partial[warp]);
  return largest;
}

}  // namespace device
}  // namespace v0
}  // namespace reef
