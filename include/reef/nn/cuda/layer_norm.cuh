#pragma once

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

/// Computes mean, rstd = 1 / sqrt(variance + epsilon) and out = (in - mean) rstd weight + bias; one warp for each row.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    layer_norm_forward_kernel(T* out, sum_t<T>* mean, sum_t<T>* rstd, const T* in, const T* weight,
                              const T* bias, std::int64_t R, std::int64_t C, sum_t<T> epsilon,
                              bool packed) {
  using E = sum_t<T>;
  const std::int64_t row = row_of_warp();
  if (row >= R) return;  // whole warps leave
  const T* x = in + row * C;
  T* const y = out + row * C;
  const E m = sum_of_row(x, C, packed, [](E value) { return value; }) / static_cast<E>(C);
  const E squares = sum_of_row(x, C, packed, [m](E value) { return (value - m) * (value - m); });
  const E s = E(1) / sqrt(squares / static_cast<E>(C) + epsilon);
  for_each_channel<T>(C, packed, [&](std::int64_t c, int width) {
    auto pack = load_channels(x + c, width);
    const auto w = load_channels(weight + c, width);
    const auto b = load_channels(bias + c, width);
    for_each_element<T>(width, [&](int e) {
      pack.element[e] = T((pack.element[e] - m) * s * w.element[e] + b.element[e]);
    });
    store_channels(y + c, pack, width);
  });
  if (threadIdx.x % device::cuda_warp == 0) {
    mean[row] = m;
    rstd[row] = s;
  }
}

/// Computes d_in = rstd (g - mean(g) - h mean(g h)), with h = (in - mean) rstd and g = d_out weight.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    layer_norm_backward_input_kernel(T* d_in, const T* d_out, const T* in, const T* weight,
                                     const sum_t<T>* mean, const sum_t<T>* rstd, std::int64_t R,
                                     std::int64_t C, bool accumulate, bool packed) {
  using E = sum_t<T>;
  const std::int64_t row = row_of_warp();
  if (row >= R) return;
  const T* x = in + row * C;
  const T* dy = d_out + row * C;
  T* const dx = d_in + row * C;
  const E m = mean[row];
  const E s = rstd[row];
  E sum_g = 0;
  E sum_gh = 0;
  for_each_channel<T>(C, packed, [&](std::int64_t c, int width) {
    const auto gradient = load_channels(dy + c, width);
    const auto value = load_channels(x + c, width);
    const auto w = load_channels(weight + c, width);
    for_each_element<T>(width, [&](int e) {
      const E g = gradient.element[e] * w.element[e];
      sum_g += g;
      sum_gh += g * ((value.element[e] - m) * s);
    });
  });
  const E mean_g = device::warp_sum(sum_g) / static_cast<E>(C);
  const E mean_gh = device::warp_sum(sum_gh) / static_cast<E>(C);
  for_each_channel<T>(C, packed, [&](std::int64_t c, int width) {
    const auto gradient = load_channels(dy + c, width);
    const auto value = load_channels(x + c, width);
    const auto w = load_channels(weight + c, width);
    device::Pack<T> result;
    if (accumulate) result = load_channels(dx + c, width);
    for_each_element<T>(width, [&](int e) {
      const E d =
          s * (gradient.element[e] * w.element[e] - mean_g - (value.element[e] - m) * s * mean_gh);
      result.element[e] = T(accumulate ? result.element[e] + d : d);
    });
    store_channels(dx + c, result, width);
  });
}

/// Returns the number of parts of the rows in which the parameters' gradients are summed; it depends on R alone.
constexpr std::int64_t layer_norm_parts(std::int64_t R) {
  const std::int64_t wanted = (R + 63) / 64;
  return wanted < 1 ? 1 : wanted > 64 ? 64 : wanted;
}

/// Writes rows p and parts + p of partial (2 parts, C): the sums of d_out h and of d_out over part p of the rows.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(column_strands * device::cuda_warp)
    layer_norm_backward_parts_kernel(sum_t<T>* partial, const T* d_out, const T* in,
                                     const sum_t<T>* mean, const sum_t<T>* rstd, std::int64_t R,
                                     std::int64_t C, std::int64_t part_rows, std::int64_t parts,
                                     bool packed) {
  using E = sum_t<T>;
  using device::Pack;
  __shared__ typename ColumnStrand<T>::Shared strands;
  const ColumnStrand<T> own(R, C, part_rows, packed);
  const std::int64_t c = own.column;
  E d_weight[Pack<T>::width] = {};
  E d_bias[Pack<T>::width] = {};
  const auto add = [&](std::int64_t row, int count) {
    const auto gradient = load_channels(d_out + row * C + c, count);
    const auto value = load_channels(in + row * C + c, count);
    const E m = mean[row];
    const E s = rstd[row];
    for_each_element<T>(count, [&](int e) {
      const E g = gradient.element[e];
      d_weight[e] += g * ((value.element[e] - m) * s);
      d_bias[e] += g;
    });
  };
  own.for_each_row(add);
  const auto fold = [&](E(&sums)[Pack<T>::width], std::int64_t to) {
    __syncthreads();  // the former sums have been read
    own.fold(strands, sums, [&](int e, E of_channel) { partial[to * C + c + e] = of_channel; });
  };
  fold(d_weight, own.part);
  fold(d_bias, parts + own.part);
}

/// The layer norm members of Kernels<device::Cuda>.
struct LayerNormKernels {
  template <real T>
  static void layer_norm_forward(device::Cuda::Lane& lane, T* out, sum_t<T>* mean, sum_t<T>* rstd,
                                 const T* in, const T* weight, const T* bias, std::int64_t R,
                                 std::int64_t C, sum_t<T> epsilon) {
    device::launch(lane, "layer_norm_forward", &layer_norm_forward_kernel<T>,
                   (R + rows_of_block - 1) / rows_of_block, device::cuda_block, 0, out, mean,
                   rstd, in, weight, bias, R, C, epsilon, packed_rows<T>(C, out, in, weight, bias));
  }

  template <real T>
  static constexpr Bytes layer_norm_backward_workspace(std::int64_t R, std::int64_t C) {
    return static_cast<Bytes>(2 * layer_norm_parts(R) * C) * sizeof(sum_t<T>);
  }

  /// d_in may be null if it is not wanted. The parameters' gradients are summed in an order that depends on R and C
  /// alone.
  template <real T>
  static void layer_norm_backward(device::Cuda::Lane& lane, T* d_in, sum_t<T>* d_weight,
                                  sum_t<T>* d_bias, const T* d_out, const T* in, const T* weight,
                                  const sum_t<T>* mean, const sum_t<T>* rstd, std::int64_t R,
                                  std::int64_t C, bool accumulate_input, bool accumulate_parameters,
                                  void* workspace) {
    // The parameters' gradients first: d_in may share d_out's memory.
    const std::int64_t parts = layer_norm_parts(R);
    const bool packed = packed_rows<T>(C, d_out, in);
    auto* const partial = static_cast<sum_t<T>*>(workspace);
    device::launch(lane, "layer_norm_backward (parts)", &layer_norm_backward_parts_kernel<T>,
                   column_tiles<T>(C, packed) * parts, column_strands * device::cuda_warp, 0, partial, d_out, in, mean,
                   rstd, R, C, (R + parts - 1) / parts, parts, packed);
    device::launch(lane, "layer_norm_backward (fold)", &fold_parts_kernel<sum_t<T>>,
                   (C + device::cuda_block - 1) / device::cuda_block, device::cuda_block, 0,
                   d_weight, d_bias, partial, C, parts, accumulate_parameters);
    if (d_in == nullptr) return;
    device::launch(lane, "layer_norm_backward (input)", &layer_norm_backward_input_kernel<T>,
                   (R + rows_of_block - 1) / rows_of_block, device::cuda_block, 0, d_in, d_out,
                   in, weight, mean, rstd, R, C, accumulate_input,
                   packed && packed_rows<T>(C, d_in, weight));
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
