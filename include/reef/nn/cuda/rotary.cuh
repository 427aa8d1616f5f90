#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>
#include <reef/nn/cuda/packed_rows.cuh>
#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

inline constexpr int rotary_chunk =
    256;  // frequencies that a kernel is told at once: 2 of 4 KiB of parameters

/// The cosines and sines, both (T, half), of pairs first, first + 1, ... at every position, found in fp64. i counts
/// (T, count).
template <class E>
struct RotaryTable {
  E* cosines;
  E* sines;
  std::int64_t half, first, count;
  double frequency[rotary_chunk];  // negative to turn back

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t t = i / count;
    const std::int64_t pair = i % count;
    const double angle = product(static_cast<double>(t), frequency[pair]);
    const std::int64_t at = t * half + first + pair;
    cosines[at] = static_cast<E>(cos(angle));
    sines[at] = static_cast<E>(sin(angle));
  }
};

/// Turns the pairs (i, i + half) of heads of D columns, `width` pairs in a thread: 16 bytes of both halves if heads are
/// `packed`, else one pair. Threads count (B, T, H, half / width).
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    rotary_kernel(T* out, const T* in, const sum_t<T>* cosines, const sum_t<T>* sines,
                  std::int64_t threads, std::int64_t sequence, std::int64_t heads,
                  std::int64_t D, std::int64_t half, bool accumulate, bool packed) {
  using E = sum_t<T>;
  using device::Pack;
  const int width = packed ? Pack<T>::width : 1;
  const std::int64_t of_head = half / width;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < threads; i += stride) {
    const std::int64_t head = i / of_head;  // of (B, T, H)
    const std::int64_t pair = i % of_head * width;
    const std::int64_t turn = head / heads % sequence * half + pair;
    const std::int64_t at = head * D + pair;
    const auto a = load_channels(in + at, width);
    const auto b = load_channels(in + at + half, width);
    Pack<T> left;
    Pack<T> right;
    if (accumulate) {
      left = load_channels(out + at, width);
      right = load_channels(out + at + half, width);
    }
    for_each_element<T>(width, [&](int e) {
      const E c = cosines[turn + e];
      const E s = sines[turn + e];
      const E x = a.element[e];
      const E y = b.element[e];
      const E turned_x = x * c - y * s;
      const E turned_y = y * c + x * s;
      left.element[e] = T(accumulate ? left.element[e] + turned_x : turned_x);
      right.element[e] = T(accumulate ? right.element[e] + turned_y : turned_y);
    });
    store_channels(out + at, left, width);
    store_channels(out + at + half, right, width);
  }
}

/// Copies or adds the columns [turned, D) of each head, which do not turn. i counts (B, T, H, D - turned).
template <class T>
struct CopyUnturned {
  T* out;
  const T* in;
  std::int64_t D, turned;
  bool accumulate;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t at = i / (D - turned) * D + turned + i % (D - turned);
    out[at] = accumulate ? T(sum_t<T>{out[at]} + sum_t<T>{in[at]}) : in[at];
  }
};

/// Rotary positions of Kernels<device::Cuda>. Each call first makes a table of all angles of a head, of frequencies
/// that the host has found.
struct RotaryKernels {
  /// Returns the bytes of the cosines and sines, both (T, turned / 2).
  template <real T>
  static constexpr Bytes rotary_workspace(std::int64_t T_, std::int64_t turned, int /*threads*/) {
    return static_cast<Bytes>(2 * T_ * (turned / 2)) * sizeof(sum_t<T>);
  }

  template <real T>
  static void rotary(device::Cuda::Lane& lane, T* out, const T* in, std::int64_t B, std::int64_t T_,
                     std::int64_t H, std::int64_t D, std::int64_t turned, const RotaryFrequencies& frequencies,
                     bool back, bool accumulate, void* workspace) {
    using E = sum_t<T>;
    const std::int64_t half = turned / 2;
    E* const cosines = static_cast<E*>(workspace);
    E* const sines = cosines + T_ * half;
    for (std::int64_t first = 0; first < half; first += rotary_chunk) {
      const std::int64_t count = (std::min)(half - first, std::int64_t{rotary_chunk});
      RotaryTable<E> table{cosines, sines, half, first, count, {}};
      for (std::int64_t i = 0; i < count; ++i) {
        const double frequency = frequencies.of(first + i, turned);
        table.frequency[i] = back ? -frequency : frequency;
      }
      device::for_each_index(lane, T_ * count, table);
    }
    const bool packed = packed_rows<T>(half, out, in) && D % device::Pack<T>::width == 0;
    const std::int64_t threads = B * T_ * H * (packed ? half / device::Pack<T>::width : half);
    device::launch(
        lane, "rotary", &rotary_kernel<T>,
        std::min<std::int64_t>((threads + device::cuda_block - 1) / device::cuda_block, 1 << 20),
        device::cuda_block, 0, out, in, cosines, sines, threads, T_, H, D, half, accumulate, packed);
    if (turned < D)
      device::for_each_index(lane, B * T_ * H * (D - turned), CopyUnturned<T>{out, in, D, turned, accumulate});
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
