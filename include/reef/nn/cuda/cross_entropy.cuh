#pragma once

#include <cmath>
#include <cstdint>

#include <cuda/std/limits>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/launch.cuh>
#include <reef/device/map.cuh>

namespace reef {
inline namespace v0 {
namespace nn::cuda {

inline constexpr int cross_entropy_fold = 1024;  // threads of the one block that folds the rows

/// Calls function(v, x[v]) for every v of [0, V), ascending in each thread of the block; 16 bytes at once if `packed`,
/// which requires a row of whole packs.
template <class T, class F>
__device__ __forceinline__ void for_each_logit(const T* x, std::int64_t V, bool packed,
                                               const F& function) {
  using device::Pack;
  if (!packed) {
    for (std::int64_t v = threadIdx.x; v < V; v += device::cuda_block)
      function(v, Pack<T>{{x[v]}}, 1);
    return;
  }
  for (std::int64_t v = threadIdx.x * Pack<T>::width; v < V;
       v += device::cuda_block * Pack<T>::width) {
    function(v, Pack<T>::load(x + v), Pack<T>::width);
  }
}

/// Returns whether rows of V logits consist of whole packs of 16 bytes.
template <class T>
bool packed_logits(const T* logits, std::int64_t V) {
  return V % device::Pack<T>::width == 0 && device::Pack<T>::at(logits);
}

/// Computes lse[r] = log sum exp(logits[r]) and losses[r] = lse[r] - logits[r, target], 0 for a negative target,
/// NaN for a target of V or more. One block for each row, which is read once: a thread's sum is scaled down
/// whenever a larger logit is read.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    cross_entropy_rows_kernel(sum_t<T>* lse, double* losses, const T* logits,
                              const std::int32_t* targets, std::int64_t V, bool packed) {
  using E = sum_t<T>;
  constexpr E nothing = -::cuda::std::numeric_limits<E>::infinity();
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * V;
  E largest = nothing;
  E sum = 0;
  for_each_logit(x, V, packed, [&](std::int64_t /*v*/, const device::Pack<T>& pack, int width) {
    E larger = largest;
#pragma unroll
    for (int e = 0; e < device::Pack<T>::width; ++e) {
      if (e < width) larger = fmax(larger, static_cast<E>(pack.element[e]));
    }
    const E base = larger == nothing ? E(0) : larger;  // infinities add 0, and NaN a NaN
    sum *= exp(largest - base);
    largest = larger;
#pragma unroll
    for (int e = 0; e < device::Pack<T>::width; ++e) {
      if (e < width) sum += exp(static_cast<E>(pack.element[e]) - base);
    }
  });
  const E overall = device::block_max<device::cuda_block>(largest);
  sum = device::block_sum<device::cuda_block>(sum * exp(largest - overall));
  if (threadIdx.x != 0) return;
  const E total = overall + log(sum);
  lse[row] = total;
  const std::int64_t target = targets[row];
  losses[row] = target < 0    ? 0.0
                : target >= V ? ::cuda::std::numeric_limits<double>::quiet_NaN()
                              : static_cast<double>(total) - static_cast<double>(x[target]);
}

/// Computes loss = sum of losses / number of targets >= 0, or 0 if no target is. One block.
template <class E>
REEF_HIDDEN __global__ void __launch_bounds__(cross_entropy_fold)
    cross_entropy_mean_kernel(E* loss, const double* losses, const std::int32_t* targets,
                              std::int64_t R) {
  double sum = 0;
  double count = 0;
  for (std::int64_t row = threadIdx.x; row < R; row += cross_entropy_fold) {
    sum += losses[row];
    count += targets[row] >= 0 ? 1.0 : 0.0;
  }
  sum = device::block_sum<cross_entropy_fold>(sum);
  count = device::block_sum<cross_entropy_fold>(count);
  if (threadIdx.x == 0) *loss = static_cast<E>(count > 0 ? sum / count : 0.0);
}

/// Computes scale = d_loss / number of targets >= 0, or 0 if no target is. One block.
template <class E>
REEF_HIDDEN __global__ void __launch_bounds__(cross_entropy_fold)
    cross_entropy_scale_kernel(E* scale, const E* d_loss, const std::int32_t* targets,
                               std::int64_t R) {
  double count = 0;
  for (std::int64_t row = threadIdx.x; row < R; row += cross_entropy_fold) {
    count += targets[row] >= 0 ? 1.0 : 0.0;
  }
  count = device::block_sum<cross_entropy_fold>(count);
  if (threadIdx.x == 0)
    *scale = count > 0 ? static_cast<E>(static_cast<double>(*d_loss) / count) : E(0);
}

/// Computes d_logits[r, v] = (exp(logits[r, v] - lse[r]) - [v = target]) scale; one block for each row.
template <class T>
REEF_HIDDEN __global__ void __launch_bounds__(device::cuda_block)
    cross_entropy_backward_kernel(T* d_logits, const sum_t<T>* scale, const T* logits,
                                  const sum_t<T>* lse, const std::int32_t* targets, std::int64_t V,
                                  bool packed) {
  using E = sum_t<T>;
  const std::int64_t row = blockIdx.x;
  const std::int64_t target = targets[row];
  const E factor = *scale;
  const E total = lse[row];
  T* const d_x = d_logits + row * V;
  for_each_logit(
      logits + row * V, V, packed, [&](std::int64_t v, const device::Pack<T>& pack, int width) {
        device::Pack<T> gradient;
#pragma unroll
        for (int e = 0; e < device::Pack<T>::width; ++e) {
          const E probability = exp(static_cast<E>(pack.element[e]) - total);
          gradient.element[e] =
              T(target < 0 ? E(0) : (probability - (v + e == target ? E(1) : E(0))) * factor);
        }
        if (width == 1) {
          d_x[v] = gradient.element[0];
        } else {
          gradient.store(d_x + v);
        }
      });
}

/// The cross-entropy members of Kernels<device::Cuda>.
struct CrossEntropyKernels {
  template <real T>
  static constexpr Bytes cross_entropy_forward_workspace(std::int64_t R, std::int64_t /*V*/) {
    return static_cast<Bytes>(R) * sizeof(double);
  }

  template <real T>
  static void cross_entropy_forward(device::Cuda::Lane& lane, sum_t<T>* loss, sum_t<T>* lse,
                                    const T* logits, const std::int32_t* targets, std::int64_t R,
                                    std::int64_t V, void* workspace) {
    auto* losses = static_cast<double*>(workspace);  // (R)
    device::launch(lane, "cross_entropy_forward (rows)", &cross_entropy_rows_kernel<T>, R,
                   device::cuda_block, 0, lse, losses, logits, targets, V,
                   packed_logits(logits, V));
    device::launch(lane, "cross_entropy_forward (mean)", &cross_entropy_mean_kernel<sum_t<T>>, 1,
                   cross_entropy_fold, 0, loss, losses, targets, R);
  }

  template <real T>
  static void cross_entropy_backward(device::Cuda::Lane& lane, T* d_logits, const sum_t<T>* d_loss,
                                     const T* logits, const sum_t<T>* lse,
                                     const std::int32_t* targets, std::int64_t R, std::int64_t V) {
    auto* scale = static_cast<sum_t<T>*>(lane.blas().workspace());
    device::launch(lane, "cross_entropy_backward (scale)", &cross_entropy_scale_kernel<sum_t<T>>, 1,
                   cross_entropy_fold, 0, scale, d_loss, targets, R);
    device::launch(lane, "cross_entropy_backward", &cross_entropy_backward_kernel<T>, R,
                   device::cuda_block, 0, d_logits, scale, logits, lse, targets, V,
                   packed_logits(logits, V) && device::Pack<T>::at(d_logits));
  }
};

}  // namespace nn::cuda
}  // namespace v0
}  // namespace reef
