#pragma once

#include <cstddef>
#include <string_view>

#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The sum of two tensors: a residual connection.
///
///     out = a + b
///
/// | shape  | a, b, out: any shape, equal for all three                                        |
/// | memory | out is stored in b's memory if no other node reads b; both gradients equal the   |
/// |        | output's, which is copied only if it cannot share its memory with them           |
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x, int branch
/// const int out = g.add("residual", nn::Add{}, {x, branch})[0];
/// \endcode
struct Add {
  static constexpr std::string_view kind = "Add";
  static constexpr bool by_rows = true;

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(2);
    call.expect(0, call.tensor(call.inputs[0].shape));
    call.expect(1, call.inputs[0]);
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.backward_reads_inputs = false;
    result.forward_shares = {{1, 0}, {0, 0}};
    result.gradient_passes = {{0, 0}, {1, 0}};
    result.forward_flops = static_cast<double>(call.inputs[0].shape.size());
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto out = call.output(0);
    Kernels<Device>::template add_forward<T>(call.lane, out.data(), call.input(0).data(),
                                             call.input(1).data(), out.size());
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    const auto d_out = call.output_gradient(0);
    for (std::size_t i = 0; i < 2; ++i) {
      if (!call.wants(i)) continue;
      Kernels<Device>::template copy_or_add<T>(call.lane, call.input_gradient(i).data(),
                                               d_out.data(), d_out.size(), call.accumulates(i));
    }
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
