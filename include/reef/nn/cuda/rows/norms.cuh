#pragma once

#include <cmath>
#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/launch.cuh>

/// Sums of rows in the order of the host's SixteenSums: sum i of the numbers at i, i + 16, ..., then halves to halves.
namespace reef {
inline namespace v0 {
namespace nn::cuda {

/// The number of sums of a row, and of the threads that take them: a warp has two rows.
inline constexpr int row_sums = 16;

/// Returns the total of the sixteen sums of a half of a warp, in each of its threads; all 32 must call it.
template <class E>
__device__ __forceinline__ E total_of_sixteen(E sum) {
#pragma unroll
  for (int half = row_sums / 2; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, half);
  return sum;
}

/// Returns the total of add(sum, i) over i in [0, n), of which each thread of a half warp takes each 16th.
template <class E, class Add>
__device__ __forceinline__ E sum_by_sixteen(std::int64_t n, const Add& add) {
  E sum = 0;
  for (std::int64_t i = static_cast<int>(threadIdx.x) % row_sums; i < n; i += row_sums)
    sum = add(sum, i);
  return total_of_sixteen(sum);
}

/// Returns the task of this thread's half warp.
__device__ __forceinline__ std::int64_t task_of_half_warp() {
  return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / row_sums;
}

/// Computes out = (in - mean) / sqrt(variance + epsilon) weight + bias, or without a bias out = in / sqrt(mean of
/// squares + epsilon) weight: of rows of C, a half warp each.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    rows_norm_kernel(T* out, const T* in, const T* weight, const T* bias, std::int64_t R,
                     std::int64_t C, sum_t<T> epsilon) {
  using E = sum_t<T>;
  const std::int64_t row = task_of_half_warp();
  const std::int64_t n = row < R ? C : 0;  // whole warps take part in sums
  const T* const x = in + row * C;
  T* const y = out + row * C;
  E mean = 0;
  if (bias != nullptr)
    mean = sum_by_sixteen<E>(n, [&](E sum, std::int64_t i) { return sum + E{x[i]}; }) /
           static_cast<E>(C);
  const E squares = sum_by_sixteen<E>(n, [&](E sum, std::int64_t i) {
    const E centred = bias != nullptr ? E{x[i]} - mean : E{x[i]};
    return fma(centred, centred, sum);
  });
  const E scale = E(1) / sqrt(squares / static_cast<E>(C) + epsilon);
  for (std::int64_t i = static_cast<int>(threadIdx.x) % row_sums; i < n; i += row_sums) {
    if (bias == nullptr) {
      y[i] = T(product(product(E{x[i]}, scale), E{weight[i]}));
    } else {
      y[i] = T(fma(product(E{x[i]} - mean, scale), E{weight[i]}, E{bias[i]}));
    }
  }
}

/// Computes h (R, rank) = in (R, K) a^T, of a (rank, K); a half warp an element.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    rows_low_rank_kernel(sum_t<T>* h, const T* in, const T* a, std::int64_t R, std::int64_t K,
                         std::int64_t rank) {
  using E = sum_t<T>;
  const std::int64_t task = task_of_half_warp();
  const bool inside = task < R * rank;
  const T* const x = in + task / rank * K;
  const T* const row = a + task % rank * K;
  const E sum = sum_by_sixteen<E>(
      inside ? K : 0, [&](E before, std::int64_t k) { return fma(E{x[k]}, E{row[k]}, before); });
  if (inside && threadIdx.x % row_sums == 0) h[task] = sum;
}

/// A function: out (R, N) += scale h (R, rank) b^T, of b (N, rank). i counts (R, N).
template <class T>
struct AddLowRank {
  T* out;
  const sum_t<T>* h;
  const T* b;
  std::int64_t N, rank;
  sum_t<T> scale;

  __device__ void operator()(std::int64_t i) const {
    using E = sum_t<T>;
    const E* const x = h + i / N * rank;
    const T* const row = b + i % N * rank;
    E sums[row_sums] = {};
    for (std::int64_t j = 0; j < rank; j += row_sums) {
#pragma unroll
      for (int lane = 0; lane < row_sums; ++lane) {
        if (j + lane < rank) sums[lane] = fma(x[j + lane], E{row[j + lane]}, sums[lane]);
      }
    }
#pragma unroll
    for (int half = row_sums / 2; half > 0; half /= 2) {
#pragma unroll
      for (int lane = 0; lane < half; ++lane) sums[lane] = sums[lane] + sums[half + lane];
    }
    out[i] = T(E{out[i]} + product(scale, sums[0]));
  }
};

/// Norms and low-rank updates of RowKernels<device::Cuda>, with the host's order of sums.
struct RowsNorms {
  template <real T>
  static void rows_layer_norm(device::Cuda::Lane& lane, T* out, const T* in, const T* weight,
                              const T* bias, std::int64_t R, std::int64_t C, sum_t<T> epsilon) {
    device::launch(lane, "rows_layer_norm", &rows_norm_kernel<T>, blocks_of(R), device::cuda_block,
                   0, out, in, weight, bias, R, C, epsilon);
  }
  template <real T>
  static void rows_rms_norm(device::Cuda::Lane& lane, T* out, const T* in, const T* weight,
                            std::int64_t R, std::int64_t C, sum_t<T> epsilon) {
    device::launch(lane, "rows_rms_norm", &rows_norm_kernel<T>, blocks_of(R), device::cuda_block, 0,
                   out, in, weight, static_cast<const T*>(nullptr), R, C, epsilon);
  }

  template <real T>
  static Bytes rows_low_rank_workspace(std::int64_t R, std::int64_t rank, int /*threads*/) {
    return static_cast<Bytes>(R * rank) * sizeof(sum_t<T>);
  }
  template <real T>
  static void rows_low_rank(device::Cuda::Lane& lane, T* out, const T* in, const T* a, const T* b,
                            std::int64_t R, std::int64_t K, std::int64_t N, std::int64_t rank,
                            sum_t<T> scale, void* workspace) {
    auto* const h = static_cast<sum_t<T>*>(workspace);
    device::launch(lane, "rows_low_rank", &rows_low_rank_kernel<T>, blocks_of(R * rank),
                   device::cuda_block, 0, h, in, a, R, K, rank);
    device::for_each_index(lane, R * N, AddLowRank<T>{out, h, b, N, rank, scale});
  }

private:
  static std::int64_t blocks_of(std::int64_t tasks) {
    constexpr std::int64_t of_block = device::cuda_block / row_sums;
    return (tasks + of_block - 1) / of_block;
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
