#pragma once

#include <cstdint>

#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>

/// Rows of channels, by 16 bytes where all of them lie so.
namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// function(c, width) for the channels of a warp's lane, `width` from c on each time: 16 bytes of them where rows are
/// `packed`, else one.
template <class T, class F>
__device__ __forceinline__ void for_each_channel(std::int64_t C, bool packed, const F& function) {
  const int lane = static_cast<int>(threadIdx.x) % device::cuda_warp;
  if (!packed) {
    for (std::int64_t c = lane; c < C; c += device::cuda_warp) function(c, 1);
    return;
  }
  constexpr int width = device::Pack<T>::width;
  for (std::int64_t c = lane * width; c < C; c += device::cuda_warp * width) function(c, width);
}

template <class T>
__device__ __forceinline__ device::Pack<T> load_channels(const T* from, int width) {
  return width == 1 ? device::Pack<T>{{from[0]}} : device::Pack<T>::load(from);
}

template <class T>
__device__ __forceinline__ void store_channels(T* to, const device::Pack<T>& pack, int width) {
  if (width == 1) {
    to[0] = pack.element[0];
  } else {
    pack.store(to);
  }
}

/// function(e) for every element of a pack of which `width` count.
template <class T, class F>
__device__ __forceinline__ void for_each_element(int width, const F& function) {
#pragma unroll
  for (int e = 0; e < device::Pack<T>::width; ++e) {
    if (e < width) function(e);
  }
}

/// Whether rows of C channels of all arrays lie in whole packs.
template <class T, class... Arrays>
bool packed_rows(std::int64_t C, const Arrays*... arrays) {
  return C % device::Pack<T>::width == 0 && (device::Pack<T>::at(arrays) && ...);
}

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
