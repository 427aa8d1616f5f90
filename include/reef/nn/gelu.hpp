#pragma once

#include <string_view>

#include <reef/graph/operator.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The Gaussian error linear unit in GPT-2's form.
///
///     out = in / 2 (1 + tanh(sqrt(2 / pi) (in + 0.044715 in^3)))
///
/// | shape  | in, out: any                                                           |
/// | memory | its gradient lies where the output's gradient lies                      |
///
/// Source: Hendrycks and Gimpel, Gaussian error linear units, arXiv 1606.08415.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int out = g.add("act", nn::Gelu{}, {x})[0];
/// \endcode
struct Gelu {
  static constexpr std::string_view kind = "Gelu";

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    call.expect(0, call.tensor(call.inputs[0].shape));
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.gradient_shares = {{0, 0}};
    // Of the polynomials around one tanh.
    result.forward_flops = 8.0 * static_cast<double>(call.inputs[0].shape.size());
    result.backward_flops = 16.0 * static_cast<double>(call.inputs[0].shape.size());
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    Kernels<Device>::template gelu_forward<T>(call.lane, call.output(0).data(), in.data(),
                                              in.size());
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0)) return;
    const auto in = call.input(0);
    Kernels<Device>::template gelu_backward<T>(call.lane, call.input_gradient(0).data(),
                                               call.output_gradient(0).data(), in.data(), in.size(),
                                               call.accumulates(0));
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
