#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>
#include <reef/nn/cuda/column_strands.cuh>
#include <reef/nn/cuda/packed_rows.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// rstd = 1 / sqrt(mean of in^2 + epsilon), out = in rstd weight; a warp a row.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    rms_norm_forward_kernel(T* out, sum_t<T>* rstd, const T* in, const T* weight, std::int64_t R,
                            std::int64_t C, sum_t<T> epsilon, bool packed) {
  using E = sum_t<T>;
  const std::int64_t row = row_of_warp();
  if (row >= R) return;  // whole warps leave
  const T* x = in + row * C;
  T* const y = out + row * C;
  const E squares = sum_of_row(x, C, packed, [](E value) { return value * value; });
  const E s = E(1) / sqrt(squares / static_cast<E>(C) + epsilon);
  for_each_channel<T>(C, packed, [&](std::int64_t c, int width) {
    auto pack = load_channels(x + c, width);
    const auto w = load_channels(weight + c, width);
    for_each_element<T>(width,
                        [&](int e) { pack.element[e] = T(pack.element[e] * s * w.element[e]); });
    store_channels(y + c, pack, width);
  });
  if (threadIdx.x % device::cuda_warp == 0) rstd[row] = s;
}

/// With h = in rstd and g = d_out weight: d_in = rstd (g - h mean(g h)).
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    rms_norm_backward_input_kernel(T* d_in, const T* d_out, const T* in, const T* weight,
                                   const sum_t<T>* rstd, std::int64_t R, std::int64_t C,
                                   bool accumulate, bool packed) {
  using E = sum_t<T>;
  const std::int64_t row = row_of_warp();
  if (row >= R) return;
  const T* x = in + row * C;
  const T* dy = d_out + row * C;
  T* const dx = d_in + row * C;
  const E s = rstd[row];
  E sum_gh = 0;
  for_each_channel<T>(C, packed, [&](std::int64_t c, int width) {
    const auto gradient = load_channels(dy + c, width);
    const auto value = load_channels(x + c, width);
    const auto w = load_channels(weight + c, width);
    for_each_element<T>(width, [&](int e) {
      const E g = gradient.element[e] * w.element[e];
      sum_gh += g * (value.element[e] * s);
    });
  });
  const E mean_gh = device::warp_sum(sum_gh) / static_cast<E>(C);
  for_each_channel<T>(C, packed, [&](std::int64_t c, int width) {
    const auto gradient = load_channels(dy + c, width);
    const auto value = load_channels(x + c, width);
    const auto w = load_channels(weight + c, width);
    device::Pack<T> result;
    if (accumulate) result = load_channels(dx + c, width);
    for_each_element<T>(width, [&](int e) {
      const E d = s * (gradient.element[e] * w.element[e] - value.element[e] * s * mean_gh);
      result.element[e] = T(accumulate ? result.element[e] + d : d);
    });
    store_channels(dx + c, result, width);
  });
}

/// Parts of the rows that the parameter's gradient is summed in, more of them where rows are short. Follows from the
/// shape alone.
constexpr std::int64_t rms_norm_parts(std::int64_t R, std::int64_t C) {
  const std::int64_t most =
      (std::max)(std::int64_t{64}, 512 * std::int64_t{128} / (C < 128 ? 128 : C));
  return (std::clamp)((R + 63) / 64, std::int64_t{1}, most);
}

/// Row p of partial (parts, C): the sum of d_out in rstd over part p.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(column_strands* device::cuda_warp)
    rms_norm_backward_parts_kernel(sum_t<T>* partial, const T* d_out, const T* in,
                                   const sum_t<T>* rstd, std::int64_t R, std::int64_t C,
                                   std::int64_t part_rows, bool packed) {
  using E = sum_t<T>;
  using device::Pack;
  __shared__ typename ColumnStrand<T>::Shared strands;
  const ColumnStrand<T> own(R, C, part_rows, packed);
  const std::int64_t c = own.column;
  E d_weight[Pack<T>::width] = {};
  const auto add = [&](std::int64_t row, int count) {
    const auto gradient = load_channels(d_out + row * C + c, count);
    const auto value = load_channels(in + row * C + c, count);
    const E s = rstd[row];
    for_each_element<T>(count, [&](int e) {
      const E g = gradient.element[e];
      d_weight[e] += g * (value.element[e] * s);
    });
  };
  own.for_each_row(add);
  own.fold(strands, d_weight,
           [&](int e, E of_channel) { partial[own.part * C + c + e] = of_channel; });
}

/// The RMS norm of Kernels<device::Cuda>.
struct RmsNormKernels {
  template <real T>
  static void rms_norm_forward(device::Cuda::Lane& lane, T* out, sum_t<T>* rstd, const T* in,
                               const T* weight, std::int64_t R, std::int64_t C, sum_t<T> epsilon) {
    device::launch(lane, "rms_norm_forward", &rms_norm_forward_kernel<T>,
                   (R + rows_of_block - 1) / rows_of_block, device::cuda_block, 0, out, rstd, in,
                   weight, R, C, epsilon, packed_rows<T>(C, out, in, weight));
  }

  template <real T>
  static constexpr Bytes rms_norm_backward_workspace(std::int64_t R, std::int64_t C) {
    return static_cast<Bytes>(rms_norm_parts(R, C) * C) * sizeof(sum_t<T>);
  }

  /// d_in may be null: not wanted. The parameter's gradient folds in an order that R and C fix.
  template <real T>
  static void rms_norm_backward(device::Cuda::Lane& lane, T* d_in, sum_t<T>* d_weight,
                                const T* d_out, const T* in, const T* weight, const sum_t<T>* rstd,
                                std::int64_t R, std::int64_t C, bool accumulate_input,
                                bool accumulate_parameters, void* workspace) {
    // The parameter's gradient first: d_in may share d_out's memory.
    const std::int64_t parts = rms_norm_parts(R, C);
    const bool packed = packed_rows<T>(C, d_out, in);
    auto* const partial = static_cast<sum_t<T>*>(workspace);
    device::launch(lane, "rms_norm_backward (parts)", &rms_norm_backward_parts_kernel<T>,
                   column_tiles<T>(C, packed) * parts, column_strands * device::cuda_warp, 0,
                   partial, d_out, in, rstd, R, C, (R + parts - 1) / parts, packed);
    device::launch(lane, "rms_norm_backward (fold)", &fold_parts_kernel<sum_t<T>>,
                   (C + device::cuda_block - 1) / device::cuda_block, device::cuda_block, 0,
                   d_weight, static_cast<sum_t<T>*>(nullptr), partial, C, parts, accumulate_parameters);
    if (d_in == nullptr) return;
    device::launch(lane, "rms_norm_backward (input)", &rms_norm_backward_input_kernel<T>,
                   (R + rows_of_block - 1) / rows_of_block, device::cuda_block, 0, d_in, d_out, in,
                   weight, rstd, R, C, accumulate_input, packed && packed_rows<T>(C, d_in, weight));
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
