#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/elementwise.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

/// The kernels of soft prompts: they write trained vectors at the first P positions of each sample, compute the
/// gradient of these vectors, and mark the targets there as ignored. One thread sums the gradient of a channel, samples
/// in ascending order.
struct Prefix {
  template <real T>
  static void prefix_forward(device::Host::Lane& lane, T* out, const T* rows, const T* wpe,
                             std::int64_t B, std::int64_t T_, std::int64_t C, std::int64_t P) {
    device::for_each_block(
        lane, B * P, rows_of_block(C), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t p = i % P;
            T* const to = out + (i / P * T_ + p) * C;
            if (wpe == nullptr) {
              device::run_vectors<T>(detail::CopyVectors{}, to, rows + p * C, C);
            } else {
              device::run_vectors<T>(detail::Add{}, to, rows + p * C, wpe + p * C, C);
            }
          }
        });
  }

  template <real T>
  static void prefix_backward(device::Host::Lane& lane, sum_t<T>* d_rows, const T* d_out,
                              std::int64_t B, std::int64_t T_, std::int64_t C, std::int64_t P,
                              bool accumulate) {
    if (!accumulate) lane.fill_zero(d_rows, static_cast<Bytes>(P * C) * sizeof(sum_t<T>));
    constexpr std::int64_t channels = 64;
    device::for_each_block(lane, C, channels, [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(SumOfSamples{}, d_rows + begin, d_out + begin, B, T_, C, P,
                             end - begin);
    });
  }

  static void targets_behind(device::Host::Lane& lane, std::int32_t* out,
                             const std::int32_t* targets, std::int64_t B, std::int64_t T_,
                             std::int64_t P) {
    device::for_each_index(lane, B * T_,
                           [=](std::int64_t i) { out[i] = i % T_ < P ? -1 : targets[i]; });
  }

private:
  struct SumOfSamples {
    template <class Vec, class T, class S>
    void run(T* d_rows, const S* d_out, std::int64_t B, std::int64_t T_, std::int64_t C,
             std::int64_t P, std::int64_t channels) const {
      for (std::int64_t b = 0; b < B; ++b) {
        for (std::int64_t p = 0; p < P; ++p) {
          T* const to = d_rows + p * C;
          const S* const from = d_out + (b * T_ + p) * C;
          for (std::int64_t i = 0; i < channels; i += Vec::width) {
            (Vec::load(to + i, channels - i) + Vec::load(from + i, channels - i))
                .store(to + i, channels - i);
          }
        }
      }
    }
  };

  static std::int64_t rows_of_block(std::int64_t C) {
    return std::max<std::int64_t>(1, device::elementwise_block / std::max<std::int64_t>(1, C));
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
