#pragma once

#include <cstdint>
#include <string_view>

#include <reef/core/text.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The mean negative log-likelihood of the targets, in nats: a loss.
///
///     loss = - 1/n sum over rows r with target[r] >= 0 of log softmax(logits[r])[target[r]]
///
/// | shape  | logits: (..., V); targets: (...), int32, -1 for a row to be ignored |
/// | saved  | the log-sum-exp of each row                                         |
/// | memory | the gradient of the logits is stored in the memory of the logits    |
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int logits, int targets
/// g.loss(g.add("loss", nn::CrossEntropy{}, {logits, targets})[0]);
/// \endcode
struct CrossEntropy {
  static constexpr std::string_view kind = "CrossEntropy";

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(2);
    call.expect_rows(0);
    const Shape& logits = call.inputs[0].shape;
    call.expect(
        1, call.inputs[1].element == Element::int32 && call.inputs[1].shape.size() == logits.rows(),
        concat(logits.rows(), " int32, one for each row of logits ", logits.text()));
    graph::Signature result;
    result.outputs = {call.sums({})};
    result.saved = {call.sums({logits.rows()})};
    result.forward_workspace =
        Kernels<Device>::template cross_entropy_forward_workspace<T>(logits.rows(), logits.last());
    result.gradient_over_input = {0};
    result.overwrites_gradients = true;
    result.forward_flops = 3.0 * static_cast<double>(logits.size());
    result.backward_flops = 3.0 * static_cast<double>(logits.size());
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto logits = call.input(0);
    Kernels<Device>::template cross_entropy_forward<T>(
        call.lane, call.output_sums(0).data(), call.kept_sums(0).data(), logits.data(),
        call.integers(1).data(), logits.shape().rows(), logits.shape().last(), call.workspace);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0)) return;
    const auto logits = call.input(0);
    Kernels<Device>::template cross_entropy_backward<T>(
        call.lane, call.input_gradient(0).data(), call.output_gradient_sums(0).data(),
        logits.data(), call.kept_sums(0).data(), call.integers(1).data(), logits.shape().rows(),
        logits.shape().last());
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
