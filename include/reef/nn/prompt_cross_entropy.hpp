#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The loss of the text behind a soft prompt of P = `prompt` positions: nn::CrossEntropy of the targets behind
/// the prompt; targets at positions below P are ignored, and not read.
///
/// | shape  | logits: (B, T, V); targets: (B, T), int32, -1 for a row to be ignored |
/// | memory | a copy of the targets while the operator runs                         |
/// | errors | ShapeError for P below 1                                              |
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int logits, int targets
/// g.loss(g.add("loss", nn::PromptCrossEntropy{.prompt = 20}, {logits, targets})[0]);
/// \endcode
struct PromptCrossEntropy {
  static constexpr std::string_view kind = "PromptCrossEntropy";

  std::int64_t prompt = 0;

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    graph::Signature result = CrossEntropy{}.signature(call);
    call.expect(1, call.inputs[1].shape.rank() == 2, "(B, T) int32");
    call.expect_positive("prompt", prompt);
    result.attributes = concat("prompt ", prompt);
    const Bytes targets = space_of_targets(call.inputs[1].shape);
    result.forward_workspace += targets;
    result.backward_workspace += targets;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    run(call, [](const auto& own) { CrossEntropy{}.forward(own); });
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0)) return;
    run(call, [](const auto& own) { CrossEntropy{}.backward(own); });
  }

private:
  static Bytes space_of_targets(const Shape& shape) {
    return round_up(static_cast<Bytes>(shape.size()) * sizeof(std::int32_t), 64);
  }

  /// Calls a function with a copy of the operator's call in which the targets of the soft prompt's positions are -1.
  template <class Call, class F>
  void run(const Call& call, const F& function) const {
    const auto targets = call.integers(1);
    const Shape shape = targets.shape();
    auto* const masked = static_cast<std::int32_t*>(call.workspace);
    Kernels<typename Call::device_type>::targets_behind(call.lane, masked, targets.data(), shape[0],
                                                        shape[1], prompt);
    const std::array<AnyView, 2> inputs{call.inputs[0], AnyView(masked, shape, Element::int32)};
    Call own = call;
    own.inputs = inputs;
    own.workspace = static_cast<char*>(call.workspace) + space_of_targets(shape);
    function(own);
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
