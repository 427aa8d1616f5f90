#pragma once

#include <cstdint>

#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>

/// Loops over rows of channels, 16 bytes at once if all rows are aligned so.
namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// Calls function(c, width) for this thread's share of a row's C channels, `width` channels from c on at a time: 16
/// bytes of them if rows are `packed`, so aligned to 16 bytes, else one channel.
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

/// Calls function(e) for each of the first `width` elements of a pack.
template <class T, class F>
__device__ __forceinline__ void for_each_element(int width, const F& function) {
#pragma unroll
  for (int e = 0; e < device::Pack<T>::width; ++e) {
    if (e < width) function(e);
  }
}

/// The rows that a block computes, a warp each.
inline constexpr int rows_of_block = device::cuda_block / device::cuda_warp;

/// Returns the row that a thread's warp computes.
__device__ __forceinline__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * rows_of_block + threadIdx.x / device::cuda_warp;
}

/// Returns the sum of of(channel) over the C channels of a row, to all threads of its warp.
template <class T, class F>
__device__ __forceinline__ sum_t<T> sum_of_row(const T* row, std::int64_t C, bool packed, const F& of) {
  sum_t<T> sum = 0;
  for_each_channel<T>(C, packed, [&](std::int64_t c, int width) {
    const auto pack = load_channels(row + c, width);
    for_each_element<T>(width, [&](int e) { sum += of(pack.element[e]); });
  });
  return device::warp_sum(sum);
}

/// Returns whether rows of C channels consist of whole packs in all arrays.
template <class T, class... Arrays>
bool packed_rows(std::int64_t C, const Arrays*... arrays) {
  return C % device::Pack<T>::width == 0 && (device::Pack<T>::at(arrays) && ...);
}

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
