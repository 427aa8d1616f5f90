#pragma once

#include <cstdint>

#include <reef/graph/operator.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// An operator that applies a function to each number of one tensor. The operator itself, Own, has the operations for a
/// number (forward_flops, backward_flops) and calls its kernels (run_forward, run_backward).
template <class Own>
struct Activation {
  static constexpr bool by_rows = true;

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    call.expect(0, call.tensor(call.inputs[0].shape));
    const auto numbers = static_cast<double>(call.inputs[0].shape.size());
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.gradient_shares = {{0, 0}};
    result.forward_flops = Own::forward_flops * numbers;
    result.backward_flops = Own::backward_flops * numbers;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    Own::template run_forward<Device, T>(call.lane, call.output(0).data(), in.data(), in.size());
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0)) return;
    const auto in = call.input(0);
    Own::template run_backward<Device, T>(call.lane, call.input_gradient(0).data(), call.output_gradient(0).data(),
                                          in.data(), in.size(), call.accumulates(0));
  }
};

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
