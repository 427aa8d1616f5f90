#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// An affine map of the last axis: out = in W + b.
///
///     out = in W + b        W: (K, N), as GPT-2 stores it;  or W^T with W: (N, K), `transpose`
///
/// | shape      | in: (..., K); out: (..., N); weight: (K, N) or (N, K); bias: (N), if `bias`   |
/// | parameters | weight: normal, standard deviation `deviation`, decays; bias: zeros, no decay |
/// | cost       | forward 2 R K N, backward 4 R K N operations for R rows                       |
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int out = g.add("fc", nn::Linear{.features = 3072, .bias = false}, {x})[0];
/// \endcode
struct Linear {
  static constexpr std::string_view kind = "Linear";

  std::int64_t features = 0;  ///< number of output channels, N
  bool bias = true;
  Transpose transpose = Transpose::no;
  double deviation = 0.02;

  static constexpr auto attributes() {
    return std::tuple(
        graph::required_attribute("features", &Linear::features, "N, the last extent of the output"),
        graph::optional_attribute("bias", &Linear::bias, "whether b is added"),
        graph::optional_attribute("transpose", &Linear::transpose, "whether the weight is (N, K)"),
        graph::optional_attribute("deviation", &Linear::deviation, "of the normal numbers that W begins with"));
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    call.expect_rows(0);
    call.expect_positive("features", features);
    const Shape& in = call.inputs[0].shape;
    const std::int64_t K = in.last();
    const Shape weight = transpose == Transpose::no ? Shape{K, features} : Shape{features, K};
    graph::Signature result;
    // The shape of a square matrix does not show that it is transposed.
    if (transpose == Transpose::yes && K == features) result.attributes = "transposed";
    result.outputs = {call.tensor(in.with_last(features))};
    result.parameters = {{"weight", weight, graph::Init::normal(deviation), true, true}};
    if (bias) result.parameters.push_back({"bias", {features}, graph::Init::zeros(), false});
    result.forward_workspace = Kernels<Device>::template linear_forward_workspace<T>(
        in.rows(), K, features, transpose, call.threads);
    result.backward_workspace = Kernels<Device>::template linear_backward_workspace<T>(
        in.rows(), K, features, transpose, call.threads);
    result.forward_flops = 2.0 * static_cast<double>(in.size()) * static_cast<double>(features);
    result.backward_flops = 2.0 * result.forward_flops;
    result.skips_gradients = true;
    result.inputs_for_parameters = true;
    result.splits_backward = true;
    result.weight_flops = result.forward_flops;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    Kernels<Device>::template linear_forward<T>(
        call.lane, call.output(0).data(), in.data(), call.parameter(0).data(),
        bias ? call.parameter(1).data() : nullptr, in.shape().rows(), in.shape().last(), features,
        transpose, call.workspace);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    const T* const d_out = call.output_gradient(0).data();
    const std::int64_t R = in.shape().rows();
    const std::int64_t K = in.shape().last();
    if (call.wants_parameters()) {
      Kernels<Device>::template linear_backward_weight<T>(
          call.lane, call.parameter_gradient(0).data(),
          bias ? call.parameter_gradient(1).data() : nullptr, in.data(), d_out, R, K, features,
          transpose, call.accumulate_parameters, call.workspace);
    }
    if (!call.wants(0)) return;
    Kernels<Device>::template linear_backward_input<T>(
        call.lane, call.input_gradient(0).data(), d_out, call.parameter(0).data(), R, K, features,
        transpose, call.accumulates(0), call.workspace);
  }

  template <class Device, real T>
  [[nodiscard]] graph::RowsSignature rows_signature(const graph::RowsSignatureCall<Device, T>& call) const {
    const Shape& in = call.inputs[0].shape;
    graph::RowsSignature result;
    const std::int64_t outliers = call.options.outliers_of(in.last());
    result.prepared = RowKernels<Device>::template packed_bytes<T>(in.last(), features, call.options.weights, outliers);
    result.layout = transpose == Transpose::yes ? "transposed" : "as it is";
    result.workspace = RowKernels<Device>::template rows_product_workspace<T>(in.rows(), in.last(), call.threads,
                                                                               outliers);
    return result;
  }

  template <class Device, real T>
  void prepare_rows(const graph::PrepareRowsCall<Device, T>& call) const {
    const Shape shape = call.values.shape();
    const std::int64_t K = transpose == Transpose::no ? shape[0] : shape[1];
    RowKernels<Device>::template pack<T>(call.lane, call.prepared, call.values.data(), K, features, transpose,
                                         call.options.weights, call.options.outliers_of(K), call.magnitudes);
  }

  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    const auto in = call.input(0);
    RowKernels<Device>::template rows_product<T>(
        call.lane, call.output(0).data(), in.data(), call.prepared, bias ? call.parameter(1).data() : nullptr,
        in.shape().rows(), in.shape().last(), features, call.options.weights, call.workspace);
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
