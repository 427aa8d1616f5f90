#pragma once

#include <cstddef>
#include <string_view>

#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The mean squared difference of two tensors: a loss for regression.
///
///     loss = 1/n sum (a - b)^2
///
/// | shape | a, b: any shape, equal for both; loss: a scalar |
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int predictions, int targets
/// g.loss(g.add("loss", nn::MeanSquaredError{}, {predictions, targets})[0]);
/// \endcode
struct MeanSquaredError {
  static constexpr std::string_view kind = "MeanSquaredError";

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(2);
    call.expect(0, call.tensor(call.inputs[0].shape));
    call.expect(1, call.inputs[0]);
    graph::Signature result;
    result.outputs = {call.sums({})};
    result.forward_workspace =
        Kernels<Device>::template mean_squared_error_workspace<T>(call.inputs[0].shape.size());
    result.forward_flops = 3.0 * static_cast<double>(call.inputs[0].shape.size());
    result.backward_flops = result.forward_flops;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto a = call.input(0);
    Kernels<Device>::template mean_squared_error_forward<T>(call.lane, call.output_sums(0).data(),
                                                            a.data(), call.input(1).data(),
                                                            a.size(), call.workspace);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    for (std::size_t i = 0; i < 2; ++i) {
      if (!call.wants(i)) continue;
      const auto own = call.input(i);
      Kernels<Device>::template mean_squared_error_backward<T>(
          call.lane, call.input_gradient(i).data(), call.output_gradient_sums(0).data(), own.data(),
          call.input(1 - i).data(), own.size(), call.accumulates(i));
    }
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
