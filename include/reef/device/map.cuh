#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>

namespace reef {
inline namespace v0 {
namespace device {

/// The elements that a thread loads, or stores, at once: 16 bytes of them.
template <class T>
struct alignas(16) Pack {
  static constexpr int width = 16 / static_cast<int>(sizeof(T));
  T element[width];

  /// Returns true if `at` is aligned to 16 bytes, so that packs can be loaded from there on.
  static bool at(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; }

  __device__ __forceinline__ static Pack load(const T* from) {
    const uint4 bytes = *reinterpret_cast<const uint4*>(from);
    return *reinterpret_cast<const Pack*>(&bytes);
  }
  __device__ __forceinline__ void store(T* to) const {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(this);
  }

private:
  static_assert(16 % sizeof(T) == 0);
};

namespace detail {

template <class T, class Function, class... Packs>
__device__ __forceinline__ Pack<T> map_pack(const Function& function, std::int64_t first,
                                            const Packs&... packs) {
  Pack<T> result;
#pragma unroll
  for (int e = 0; e < Pack<T>::width; ++e)
    result.element[e] = T(function(first + e, packs.element[e]...));
  return result;
}

#pragma nv_diagnostic push
#pragma nv_diag_suppress 1407  // F may be a type of one file only, whose kernel is hidden anyway
template <class T, class F, class... In>
REEF_HIDDEN __global__ void __launch_bounds__(cuda_block)
    map_kernel(std::int64_t packs, std::int64_t n, T* out, F function, const In*... in) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t pack = thread; pack < packs; pack += stride) {
    const std::int64_t first = pack * Pack<T>::width;
    map_pack<T>(function, first, Pack<T>::load(in + first)...).store(out + first);
  }
  for (std::int64_t i = packs * Pack<T>::width + thread; i < n; i += stride)
    out[i] = T(function(i, in[i]...));
}
#pragma nv_diagnostic pop

}  // namespace detail

/// Computes out[i] = function(i, in[i]...), rounded to T, for every i in [0,
/// n), on the lane; 16 bytes at a time if all arrays are aligned to 16 bytes.
///
/// | shape    | out, in: (n,) of T in device memory; an array of `in` may be `out`, but not overlap it in part |
/// | function | copied to the device: a struct with a __device__ operator()(std::int64_t, T...) const          |
/// | cost     | one pass over the arrays, for functions of at most about 30 operations for an element          |
template <class T, class F, class... In>
void map(Cuda::Lane& lane, std::int64_t n, T* out, F function, const In*... in) {
  const std::int64_t packs = Pack<T>::at(out) && (Pack<T>::at(in) && ...) ? n / Pack<T>::width : 0;
  const std::int64_t threads = (std::max)(packs, n - packs * Pack<T>::width);
  launch(lane, "map", &detail::map_kernel<T, F, In...>,
         std::min<std::int64_t>((threads + cuda_block - 1) / cuda_block, 1 << 20), cuda_block, 0,
         packs, n, out, function, in...);
}

}  // namespace device
}  // namespace v0
}  // namespace reef
