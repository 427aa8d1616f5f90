#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <tuple>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// An affine map of the last axis with a low-rank update: nn::Linear, whose weight usually is frozen, and two small
/// matrices that are trained in its place.
///
///     h = in A^T;  out = in W + b + s h B^T      s = alpha / rank
///
/// | shape      | in: (..., K); out: (..., N); W, b: weight and bias of nn::Linear; A: (rank, K); B: (N, rank) |
/// | parameters | A, "lora_A.weight": normal of deviation 1 / sqrt(3 K), that of PEFT's uniform numbers;       |
/// |            | B, "lora_B.weight": zeros, so that the map begins as that of W and b; both decay             |
/// | saved      | h: (R, rank), for R rows                                                                     |
/// | cost       | forward 2 R (K N + rank (K + N)) operations, backward 2 R (K N + 2 rank (K + N)); if W is    |
/// |            | trained 2 R K N more, which Signature does not count                                         |
/// | errors     | ShapeError for a rank below 1, or an alpha below 0 or not finite                             |
///
/// Source: Hu et al., LoRA, arXiv 2106.09685, section 4.1.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const nn::LoraLinear projection{
///     .linear = {.features = 768, .transpose = nn::Transpose::yes}, .rank = 8, .alpha = 16};
/// const int out = g.add("q_proj", projection, {x})[0];
/// g.freeze("q_proj.weight");
/// \endcode
struct LoraLinear {
  static constexpr std::string_view kind = "LoraLinear";

  Linear linear{};
  std::int64_t rank = 8;
  double alpha = 8;

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    graph::Signature result = linear.signature(call);
    call.expect_positive("rank", rank);
    call.expect_not_negative("alpha", alpha);
    const Shape& in = call.inputs[0].shape;
    const std::int64_t R = in.rows();
    const std::int64_t K = in.last();
    const std::int64_t N = linear.features;
    result.attributes = concat(result.attributes, result.attributes.empty() ? "" : ", ", "rank ",
                               rank, ", alpha ", alpha);
    result.saved = {call.tensor({R, rank})};
    const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(K));
    result.parameters.push_back(
        {"lora_A.weight", {rank, K}, graph::Init::normal(deviation), true, true});
    result.parameters.push_back({"lora_B.weight", {N, rank}, graph::Init::zeros(), true, true});
    const auto product = [&](Transpose ta, Transpose tb, std::int64_t m, std::int64_t n,
                             std::int64_t k) {
      return Kernels<Device>::template gemm_workspace<T>(ta, tb, m, n, k, call.threads);
    };
    constexpr Transpose no = Transpose::no;
    constexpr Transpose yes = Transpose::yes;
    result.forward_workspace = (std::max)(
        {result.forward_workspace, product(no, yes, R, rank, K), product(no, yes, R, N, rank)});
    result.backward_workspace =
        space_of_h<T>(R) + (std::max)({result.backward_workspace, product(no, no, R, rank, N),
                                       product(yes, no, N, rank, R), product(yes, no, rank, K, R),
                                       product(no, no, R, K, rank)});
    const double low_rank =
        2.0 * static_cast<double>(R) * static_cast<double>(rank) * static_cast<double>(K + N);
    result.backward_flops = result.forward_flops + 2 * low_rank;
    result.forward_flops += low_rank;
    result.weight_flops = 0;
    result.inputs_for_parameters = false;
    result.splits_backward = false;  // both halves need the gradient of h
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    using Gemm = Kernels<Device>;
    linear.forward(call);
    const auto in = call.input(0);
    const std::int64_t R = in.shape().rows();
    const std::int64_t K = in.shape().last();
    const std::int64_t N = linear.features;
    T* const h = call.kept(0).data();
    Gemm::gemm(call.lane, Transpose::no, Transpose::yes, R, rank, K, one<T>(), in.data(), K,
               call.parameter(slot_of_a()).data(), K, zero<T>(), h, rank, call.workspace);
    Gemm::gemm(call.lane, Transpose::no, Transpose::yes, R, N, rank, scale<T>(),
               static_cast<const T*>(h), rank, call.parameter(slot_of_a() + 1).data(), rank,
               one<T>(), call.output(0).data(), N, call.workspace);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    using Gemm = Kernels<Device>;
    using E = sum_t<T>;
    const auto in = call.input(0);
    const std::int64_t R = in.shape().rows();
    const std::int64_t K = in.shape().last();
    const std::int64_t N = linear.features;
    const T* const d_out = call.output_gradient(0).data();
    T* const d_h = static_cast<T*>(call.workspace);  // (R, rank)
    void* const workspace = static_cast<char*>(call.workspace) + space_of_h<T>(R);
    Gemm::gemm(call.lane, Transpose::no, Transpose::no, R, rank, N, scale<T>(), d_out, N,
               call.parameter(slot_of_a() + 1).data(), rank, zero<T>(), d_h, rank, workspace);
    if (call.wants_parameters()) {
      const E beta = call.accumulate_parameters ? one<T>() : zero<T>();
      if (E* const d_a = call.parameter_gradient(slot_of_a()).data()) {
        Gemm::gemm(call.lane, Transpose::yes, Transpose::no, rank, K, R, one<T>(),
                   static_cast<const T*>(d_h), rank, in.data(), K, beta, d_a, K, workspace);
      }
      if (E* const d_b = call.parameter_gradient(slot_of_a() + 1).data()) {
        Gemm::gemm(call.lane, Transpose::yes, Transpose::no, N, rank, R, scale<T>(), d_out, N,
                   call.kept(0).data(), rank, beta, d_b, rank, workspace);
      }
      Gemm::template linear_backward_weight<T>(
          call.lane, call.parameter_gradient(0).data(),
          linear.bias ? call.parameter_gradient(1).data() : nullptr, in.data(), d_out, R, K, N,
          linear.transpose, call.accumulate_parameters, workspace);
    }
    if (!call.wants(0)) return;
    T* const d_in = call.input_gradient(0).data();
    Gemm::template linear_backward_input<T>(call.lane, d_in, d_out, call.parameter(0).data(), R, K,
                                            N, linear.transpose, call.accumulates(0), workspace);
    Gemm::gemm(call.lane, Transpose::no, Transpose::no, R, K, rank, one<T>(),
               static_cast<const T*>(d_h), rank, call.parameter(slot_of_a()).data(), K, one<T>(),
               d_in, K, workspace);
  }

  template <class Device, real T>
  [[nodiscard]] graph::RowsSignature rows_signature(const graph::RowsSignatureCall<Device, T>& call) const {
    graph::RowsSignature result = linear.rows_signature(call);
    result.workspace = (std::max)(result.workspace,
                                  RowKernels<Device>::template rows_low_rank_workspace<T>(
                                      call.inputs[0].shape.rows(), rank, call.threads));
    return result;
  }

  template <class Device, real T>
  void prepare_rows(const graph::PrepareRowsCall<Device, T>& call) const {
    linear.prepare_rows(call);
  }

  /// Computes rows (tokens) with the weight W in the RowModel's packed form, and the adapter's A and B unchanged, as
  /// fine-tuning beside quantised weights trains them.
  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    linear.forward_rows(call);
    const auto in = call.input(0);
    RowKernels<Device>::template rows_low_rank<T>(
        call.lane, call.output(0).data(), in.data(), call.parameter(slot_of_a()).data(),
        call.parameter(slot_of_a() + 1).data(), in.shape().rows(), in.shape().last(), linear.features, rank, scale<T>(),
        call.workspace);
  }

private:
  template <real T>
  static sum_t<T> one() {
    return sum_t<T>(1);
  }
  template <real T>
  static sum_t<T> zero() {
    return sum_t<T>(0);
  }
  template <real T>
  [[nodiscard]] sum_t<T> scale() const {
    return static_cast<sum_t<T>>(alpha / static_cast<double>(rank));
  }
  template <real T>
  [[nodiscard]] Bytes space_of_h(std::int64_t R) const {
    return round_up(static_cast<Bytes>(R * rank) * sizeof(T), 64);
  }
  [[nodiscard]] std::size_t slot_of_a() const { return linear.bias ? 2 : 1; }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
