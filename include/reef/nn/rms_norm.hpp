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

/// An operator that divides each row by its root mean square, then scales it.
///
///     out = in rstd w      rstd = 1 / sqrt(mean of in^2 + epsilon)
///
/// | shape      | in, out: (..., C); weight: (width); saved: rstd, one for each `width` of C         |
/// | width      | 0: C. Else `width` divides C, and each part of a row is normalised alone, such     |
/// |            | as a head's queries                                                                |
/// | parameters | weight: ones; without weight decay                                                 |
/// | memory     | the input's gradient uses the output gradient's memory, unless it is a sum         |
/// | errors     | ShapeError for an epsilon below 0 or not finite, or a width that does not divide C |
///
/// Source: Zhang and Sennrich, Root mean square layer normalization, arXiv 1910.07467.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int out = g.add("input_layernorm", nn::RmsNorm{.epsilon = 1e-5}, {x})[0];
/// \endcode
struct RmsNorm {
  static constexpr std::string_view kind = "RmsNorm";

  double epsilon = 1e-6;
  std::int64_t width = 0;

  static constexpr auto attributes() {
    return std::tuple(
        graph::optional_attribute("epsilon", &RmsNorm::epsilon,
                                  "what is added to the mean of squares, 0 or more"),
        graph::optional_attribute("width", &RmsNorm::width,
                                  "of what is normalised by itself, divides C; 0: C"));
  }

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    call.expect_rows(0);
    call.expect_not_negative("epsilon", epsilon);
    const Shape& in = call.inputs[0].shape;
    call.expect(0, width == 0 || (width > 0 && in.last() % width == 0),
                concat("rows of a multiple of its width, ", width));
    const Rows rows(in, width);
    graph::Signature result;
    result.attributes = concat("epsilon ", epsilon, width == 0 ? "" : concat(", width ", width));
    result.outputs = {call.inputs[0]};
    result.saved = {call.sums({rows.R})};
    result.parameters = {{"weight", {rows.C}, graph::Init::ones(), false}};
    result.backward_workspace =
        Kernels<Device>::template rms_norm_backward_workspace<T>(rows.R, rows.C);
    result.gradient_shares = {{0, 0}};
    result.writes_all_gradients = true;
    result.forward_flops = 4.0 * static_cast<double>(in.size());
    result.backward_flops = 10.0 * static_cast<double>(in.size());
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    const Rows rows(in.shape(), width);
    Kernels<Device>::template rms_norm_forward<T>(
        call.lane, call.output(0).data(), call.kept_sums(0).data(), in.data(),
        call.parameter(0).data(), rows.R, rows.C, static_cast<sum_t<T>>(epsilon));
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    const Rows rows(in.shape(), width);
    Kernels<Device>::template rms_norm_backward<T>(
        call.lane, call.input_gradient(0).data(), call.parameter_gradient(0).data(),
        call.output_gradient(0).data(), in.data(), call.parameter(0).data(),
        call.kept_sums(0).data(), rows.R, rows.C, call.accumulates(0), call.accumulate_parameters,
        call.workspace);
  }

  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    const Rows rows(call.input(0).shape(), width);
    RowKernels<Device>::template rows_rms_norm<T>(call.lane, call.output(0).data(), call.input(0).data(),
                                                  call.parameter(0).data(), rows.R, rows.C,
                                                  static_cast<sum_t<T>>(epsilon));
  }

private:
  struct Rows {
    Rows(const Shape& in, std::int64_t width)
        : C(width == 0 ? in.last() : width), R(C == 0 ? in.rows() : in.size() / C) {}
    std::int64_t C;
    std::int64_t R;
  };
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
