#pragma once

#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

constexpr Transpose other(Transpose t) { return t == Transpose::no ? Transpose::yes : Transpose::no; }

/// The gradients of the affine map on a device: products, and sums of columns.
///
///     d_in (R, K) (+)= d_out (R, N) w^T
///     d_w  (K, N) (+)= in^T d_out;  d_bias (N) (+)= the sum of d_out's rows; null: not wanted
///
/// | Gemm    | gemm(), as Kernels has it                                                                |
/// | Columns | sum(lane, out, in, rows, columns, accumulate): out[c] (+)= sum over the rows of in[r, c] |
template <class Device, class Gemm, class Columns>
struct LinearGradients {
  template <real T>
  static void linear_backward_input(typename Device::Lane& lane, T* d_in, const T* d_out, const T* w, std::int64_t R,
                                    std::int64_t K, std::int64_t N, Transpose tw, bool accumulate, void* workspace) {
    using E = sum_t<T>;
    Gemm::gemm(lane, Transpose::no, other(tw), R, K, N, E(1), d_out, N, w, tw == Transpose::no ? N : K,
               accumulate ? E(1) : E(0), d_in, K, workspace);
  }

  template <real T>
  static void linear_backward_weight(typename Device::Lane& lane, sum_t<T>* d_w, sum_t<T>* d_bias, const T* in,
                                     const T* d_out, std::int64_t R, std::int64_t K, std::int64_t N, Transpose tw,
                                     bool accumulate, void* workspace) {
    using E = sum_t<T>;
    const E beta = accumulate ? E(1) : E(0);
    if (d_w != nullptr && tw == Transpose::no) {
      Gemm::gemm(lane, Transpose::yes, Transpose::no, K, N, R, E(1), in, K, d_out, N, beta, d_w, N, workspace);
    } else if (d_w != nullptr) {
      Gemm::gemm(lane, Transpose::yes, Transpose::no, N, K, R, E(1), d_out, N, in, K, beta, d_w, K, workspace);
    }
    if (d_bias != nullptr) Columns::sum(lane, d_bias, d_out, R, N, accumulate);
  }
};

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
