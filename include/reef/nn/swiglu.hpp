#pragma once

#include <string_view>

#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The gated unit of an MLP: SiLU of one input multiplies the other input.
///
///     out = silu(gate) up      silu(x) = x / (1 + exp(-x))
///
/// | shape  | gate, up, out: any shape, equal for all three                            |
/// | memory | the gate's gradient uses the output gradient's memory                    |
///
/// Source: Shazeer, GLU variants improve transformer, arXiv 2002.05202.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int gate, int up
/// const int out = g.add("mlp.act", nn::SwiGlu{}, {gate, up})[0];
/// \endcode
struct SwiGlu {
  static constexpr std::string_view kind = "SwiGlu";
  static constexpr bool by_rows = true;

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(2);
    call.expect(0, call.tensor(call.inputs[0].shape));
    call.expect(1, call.inputs[0]);
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.gradient_shares = {{0, 0}};
    result.forward_flops = 5.0 * static_cast<double>(call.inputs[0].shape.size());
    result.backward_flops = 11.0 * static_cast<double>(call.inputs[0].shape.size());
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto gate = call.input(0);
    Kernels<Device>::template swiglu_forward<T>(call.lane, call.output(0).data(), gate.data(),
                                                call.input(1).data(), gate.size());
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0) && !call.wants(1)) return;
    const auto gate = call.input(0);
    Kernels<Device>::template swiglu_backward<T>(
        call.lane, call.wants(0) ? call.input_gradient(0).data() : nullptr,
        call.wants(1) ? call.input_gradient(1).data() : nullptr, call.output_gradient(0).data(),
        gate.data(), call.input(1).data(), gate.size(), call.accumulates(0), call.accumulates(1));
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
