#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// A function that copies D numbers, or adds them: to[i] = from[i] or to[i] + from[i].
struct CopyOrAddNumbers {
  template <class V, class S>
  void run(S* to, const S* from, std::int64_t D, bool accumulate) const {
    for (std::int64_t i = 0; i < D; i += V::width) {
      const V value = V::load(from + i, D - i);
      (accumulate ? value + V::load(to + i, D - i) : value).store(to + i, D - i);
    }
  }
};

}  // namespace detail

/// The kernels that split queries, keys and values, which lie side by side in each head, and join them again, each one
/// pass over memory.
struct SplitHeads {
  template <real T>
  static void split_heads(device::Host::Lane& lane, T* q, T* k, T* v, const T* in, std::int64_t R, std::int64_t H,
                          std::int64_t D) {
    each_row(lane, R, H * D, [=](std::int64_t r) {
      const T* from = in + r * 3 * H * D;
      for (std::int64_t h = 0; h < H; ++h, from += 3 * D) {
        const std::int64_t to = (r * H + h) * D;
        std::copy_n(from, D, q + to);
        std::copy_n(from + D, D, k + to);
        std::copy_n(from + 2 * D, D, v + to);
      }
    });
  }

  template <real T>
  static void join_heads(device::Host::Lane& lane, T* d_in, const T* d_q, const T* d_k, const T* d_v, std::int64_t R,
                         std::int64_t H, std::int64_t D, bool accumulate) {
    each_row(lane, R, H * D, [=](std::int64_t r) {
      T* to = d_in + r * 3 * H * D;
      for (std::int64_t h = 0; h < H; ++h) {
        for (const T* const part : {d_q, d_k, d_v}) {
          device::run_vectors<T>(detail::CopyOrAddNumbers{}, to, part + (r * H + h) * D, D, accumulate);
          to += D;
        }
      }
    });
  }

private:
  template <class F>
  static void each_row(device::Host::Lane& lane, std::int64_t R, std::int64_t C, const F& function) {
    const std::int64_t block = std::max<std::int64_t>(1, device::elementwise_block / C);
    device::for_each_block(lane, R, block, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) function(r);
    });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
