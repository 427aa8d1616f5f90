#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include <reef/core/text.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// An operator that normalises each row, then scales and shifts it.
///
///     out = (in - mean) rstd w + b      mean over the last axis, rstd = 1 / sqrt(variance + epsilon)
///
/// | shape      | in, out: (..., C); weight, bias: (C); saved: mean, rstd, one for each row  |
/// | parameters | weight: ones; bias: zeros; both without weight decay                       |
/// | memory     | the input's gradient uses the output gradient's memory, unless it is a sum |
/// | errors     | ShapeError for an epsilon below 0 or not finite                            |
///
/// Source: Ba, Kiros and Hinton, Layer normalization, arXiv 1607.06450.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int out = g.add("ln_1", nn::LayerNorm{.epsilon = 1e-6}, {x})[0];
/// \endcode
struct LayerNorm {
  static constexpr std::string_view kind = "LayerNorm";

  double epsilon = 1e-5;

  static constexpr auto attributes() {
    return std::tuple(
        graph::optional_attribute("epsilon", &LayerNorm::epsilon, "what is added to the variance, 0 or more"));
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    call.expect_rows(0);
    call.expect_not_negative("epsilon", epsilon);
    const Shape& in = call.inputs[0].shape;
    graph::Signature result;
    result.attributes = concat("epsilon ", epsilon);
    result.outputs = {call.inputs[0]};
    result.saved = {call.sums({in.rows()}), call.sums({in.rows()})};
    result.parameters = {{"weight", {in.last()}, graph::Init::ones(), false},
                         {"bias", {in.last()}, graph::Init::zeros(), false}};
    result.backward_workspace =
        Kernels<Device>::template layer_norm_backward_workspace<T>(in.rows(), in.last());
    result.gradient_shares = {{0, 0}};
    result.writes_all_gradients = true;
    result.forward_flops = 7.0 * static_cast<double>(in.size());
    result.backward_flops = 14.0 * static_cast<double>(in.size());
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    Kernels<Device>::template layer_norm_forward<T>(
        call.lane, call.output(0).data(), call.kept_sums(0).data(), call.kept_sums(1).data(),
        in.data(), call.parameter(0).data(), call.parameter(1).data(), in.shape().rows(),
        in.shape().last(), static_cast<sum_t<T>>(epsilon));
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    Kernels<Device>::template layer_norm_backward<T>(
        call.lane, call.input_gradient(0).data(), call.parameter_gradient(0).data(),
        call.parameter_gradient(1).data(), call.output_gradient(0).data(), in.data(),
        call.parameter(0).data(), call.kept_sums(0).data(), call.kept_sums(1).data(),
        in.shape().rows(), in.shape().last(), call.accumulates(0), call.accumulate_parameters,
        call.workspace);
  }

  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    const auto in = call.input(0);
    RowKernels<Device>::template rows_layer_norm<T>(
        call.lane, call.output(0).data(), in.data(), call.parameter(0).data(), call.parameter(1).data(),
        in.shape().rows(), in.shape().last(), static_cast<sum_t<T>>(epsilon));
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
