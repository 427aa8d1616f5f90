#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// A function that computes lse[r] = log(sum(exp(x[r]))) for each row r, in one pass over memory: each chunk is read
/// for its maximum, and again, from the first-level cache, for its sum.
struct LogSumExp {
  template <class V, class T, class S>
  void run(T* lse, const S* logits, std::int64_t rows, std::int64_t columns,
           std::int64_t stride) const {
    constexpr std::int64_t chunk = 1024;
    const V lowest(std::numeric_limits<T>::lowest());
    for (std::int64_t r = 0; r < rows; ++r) {
      const S* const row = logits + r * stride;
      T top = std::numeric_limits<T>::lowest();
      V total(T(0));
      for (std::int64_t begin = 0; begin < columns; begin += chunk) {
        const S* const x = row + begin;
        const std::int64_t n = columns - begin < chunk ? columns - begin : chunk;
        V highest = lowest;
        for (std::int64_t i = 0; i < n; i += V::width) {
          highest = larger(highest, V::load(x + i, n - i, lowest));
        }
        const T chunk_top = largest(highest);
        if (chunk_top > top) {
          total = total * exp(V(top - chunk_top));
          top = chunk_top;
        }
        const V minus_top(-top);
        for (std::int64_t i = 0; i < n; i += V::width) {
          total += keep(exp(V::load(x + i, n - i) + minus_top), n - i);
        }
      }
      lse[r] = top + std::log(sum(total));
    }
  }
};

/// A function that computes d[i] = scale exp(x[i] - lse), the gradient of a softmax's inputs.
struct SoftmaxGradient {
  template <class V, class S, class T = typename V::element_type>
  void run(S* d, const S* x, std::int64_t n, T lse, T scale) const {
    const V minus_lse(-lse);
    const V factor(scale);
    for (std::int64_t i = 0; i < n; i += V::width) {
      (factor * exp(V::load(x + i, n - i) + minus_lse)).store(d + i, n - i);
    }
  }
};

}  // namespace detail

/// Kernels of softmax and negative log-likelihood in one. The loss is summed over rows in ascending order, in fp64.
struct CrossEntropy {
  template <real T>
  static Bytes cross_entropy_forward_workspace(std::int64_t /*R*/, std::int64_t /*V*/) {
    return 0;
  }

  template <real T>
  static void cross_entropy_forward(device::Host::Lane& lane, sum_t<T>* loss, sum_t<T>* lse,
                                    const T* logits, const std::int32_t* targets, std::int64_t R,
                                    std::int64_t V, void* /*workspace*/) {
    check_targets(targets, R, V);
    device::for_each_block(lane, R, rows_of_block(V), [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(detail::LogSumExp{}, lse + begin, logits + begin * V, end - begin, V,
                             V);
    });
    double total = 0;
    for (std::int64_t r = 0; r < R; ++r) {
      if (targets[r] >= 0) total += static_cast<double>(lse[r] - logits[r * V + targets[r]]);
    }
    const std::int64_t rows = counted(targets, R);
    *loss = rows == 0 ? sum_t<T>(0) : static_cast<sum_t<T>>(total / static_cast<double>(rows));
  }

  template <real T>
  static void cross_entropy_backward(device::Host::Lane& lane, T* d_logits, const sum_t<T>* d_loss,
                                     const T* logits, const sum_t<T>* lse,
                                     const std::int32_t* targets, std::int64_t R, std::int64_t V) {
    using E = sum_t<T>;
    const std::int64_t rows = counted(targets, R);
    const E scale = rows == 0 ? E(0) : *d_loss / static_cast<E>(rows);
    device::for_each_block(lane, R, rows_of_block(V), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        T* const d = d_logits + r * V;
        if (targets[r] < 0) {
          std::fill_n(d, V, T(0));
        } else {
          // Read before d is written, since d may have the memory of the logits.
          const E target = logits[r * V + targets[r]];
          device::run_vectors<T>(detail::SoftmaxGradient{}, d, logits + r * V, V, lse[r], scale);
          d[targets[r]] = T(scale * std::expm1(target - lse[r]));
        }
      }
    });
  }

private:
  static std::int64_t rows_of_block(std::int64_t V) {
    return std::max<std::int64_t>(1, device::elementwise_block / std::max<std::int64_t>(1, V));
  }

  static std::int64_t counted(const std::int32_t* targets, std::int64_t R) {
    return std::count_if(targets, targets + R, [](std::int32_t target) { return target >= 0; });
  }

  static void check_targets(const std::int32_t* targets, std::int64_t R, std::int64_t V) {
    const std::int32_t* const end = targets + R;
    const std::int32_t* const bad =
        std::find_if(targets, end, [V](std::int32_t target) { return target < -1 || target >= V; });
    if (bad == end) return;
    throw DecodeError("reef::nn: target ", *bad, " at row ", bad - targets, " is outside [-1, ", V,
                      ").\n  fix: the tokenizer that belongs to the model.");
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
