#pragma once

#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/map.cuh>
#include <reef/nn/cuda/packed_rows.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// Calls move(a place in the fused numbers, the part 0, 1 or 2, a place in that part) for the i-th piece of `width`
/// numbers of (R, H, 3, D).
template <class F>
__device__ __forceinline__ void with_places(std::int64_t i, std::int64_t D, int width, const F& move) {
  const std::int64_t pieces = D / width;
  const std::int64_t row = i / pieces;  // of (R, H, 3)
  const std::int64_t c = i % pieces * width;
  move(row * D + c, static_cast<int>(row % 3), row / 3 * D + c);
}

/// Copies pieces of fused heads to queries, keys and values.
template <class T>
struct SplitPieces {
  T* parts[3];
  const T* in;
  std::int64_t D;
  int width;

  __device__ void operator()(std::int64_t i) const {
    with_places(i, D, width, [&](std::int64_t from, int part, std::int64_t to) {
      store_channels(parts[part] + to, load_channels(in + from, width), width);
    });
  }
};

/// Copies pieces of queries, keys and values, or adds them, to fused heads.
template <class T>
struct JoinPieces {
  T* out;
  const T* parts[3];
  std::int64_t D;
  int width;
  bool accumulate;

  __device__ void operator()(std::int64_t i) const {
    with_places(i, D, width, [&](std::int64_t to, int part, std::int64_t from) {
      auto pack = load_channels(parts[part] + from, width);
      if (accumulate) {
        const auto former = load_channels(out + to, width);
        for_each_element<T>(width, [&](int e) {
          pack.element[e] = T(sum_t<T>{former.element[e]} + sum_t<T>{pack.element[e]});
        });
      }
      store_channels(out + to, pack, width);
    });
  }
};

/// Fused heads of Kernels<device::Cuda>, apart and together again: one pass over memory each, a thread 16 bytes at a
/// time if heads are whole packs.
struct SplitHeadsKernels {
  template <real T>
  static void split_heads(device::Cuda::Lane& lane, T* q, T* k, T* v, const T* in, std::int64_t R, std::int64_t H,
                          std::int64_t D) {
    const int width = packed_rows<T>(D, q, k, v, in) ? device::Pack<T>::width : 1;
    device::for_each_index(lane, R * H * 3 * D / width, SplitPieces<T>{{q, k, v}, in, D, width});
  }

  template <real T>
  static void join_heads(device::Cuda::Lane& lane, T* d_in, const T* d_q, const T* d_k, const T* d_v, std::int64_t R,
                         std::int64_t H, std::int64_t D, bool accumulate) {
    const int width = packed_rows<T>(D, d_in, d_q, d_k, d_v) ? device::Pack<T>::width : 1;
    device::for_each_index(lane, R * H * 3 * D / width, JoinPieces<T>{d_in, {d_q, d_k, d_v}, D, width, accumulate});
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
