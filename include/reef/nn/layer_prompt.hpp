#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <reef/core/element.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// An operator before a layer that adds trained vectors to the first P = `prompt` positions of each sample.
///
///     out[b, t] = in[b, t] + prompt[t]   for t < P;   in[b, t] elsewhere
///
/// | shape      | in, out: (B, T, C); prompt: (P, C)                                               |
/// | parameters | "prompt_embeddings": zeros, so that the model at first computes the same; decays |
/// | order      | the gradient of the prompt sums samples in ascending order                       |
/// | memory     | out uses in's memory, and in's gradient that of out's gradient                   |
/// | by rows    | a row of position p < P gets prompt[p] added, another is copied                  |
/// | errors     | ShapeError for P below 1                                                         |
///
/// Source: bigscience-workshop/petals, src/petals/client/ptune.py, "deep_ptune" (Borzunov et al., arXiv 2312.08361).
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int prompted = g.add("layers.0.prompt", nn::LayerPrompt{.prompt = 20}, {x})[0];
/// \endcode
struct LayerPrompt {
  static constexpr std::string_view kind = "LayerPrompt";

  std::int64_t prompt = 0;

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    call.expect_rows(0);
    call.expect(0, call.inputs[0].shape.rank() == 3, "(B, T, C)");
    call.expect_positive("prompt", prompt);
    graph::Signature result;
    result.attributes = concat("prompt ", prompt);
    result.outputs = {call.inputs[0]};
    result.parameters = {{"prompt_embeddings", {prompt, call.inputs[0].shape.last()}, graph::Init::zeros(), true}};
    result.backward_reads_inputs = false;
    result.forward_shares = {{0, 0}};
    result.gradient_passes = {{0, 0}};
    result.forward_flops = static_cast<double>(call.inputs[0].shape.size());
    result.backward_flops = result.forward_flops;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    T* const out = call.output(0).data();
    if (out != in.data()) Kernels<Device>::template copy_or_add<T>(call.lane, out, in.data(), in.size(), false);
    const Shape shape = in.shape();
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      T* const rows = out + b * shape[1] * shape[2];
      Kernels<Device>::template copy_or_add<T>(call.lane, rows, call.parameter(0).data(), positions(shape) * shape[2],
                                               true);
    }
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    const auto d_out = call.output_gradient(0);
    const Shape shape = d_out.shape();
    if (call.wants_parameters()) {
      using E = sum_t<T>;
      E* const d_prompt = call.parameter_gradient(0).data();
      const std::int64_t P = positions(shape);
      Kernels<Device>::template prefix_backward<T>(call.lane, d_prompt, d_out.data(), shape[0], shape[1], shape[2], P,
                                                   call.accumulate_parameters);
      if (!call.accumulate_parameters && P < prompt)
        call.lane.fill_zero(d_prompt + P * shape[2], static_cast<Bytes>((prompt - P) * shape[2]) * sizeof(E));
    }
    if (!call.wants(0)) return;
    Kernels<Device>::template copy_or_add<T>(call.lane, call.input_gradient(0).data(), d_out.data(), d_out.size(),
                                             call.accumulates(0));
  }

  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    const auto in = call.input(0);
    RowKernels<Device>::template rows_added_prefix<T>(call.lane, call.output(0).data(), in.data(),
                                                      call.parameter(0).data(), call.rows, in.shape().last(), prompt);
  }

private:
  /// Returns the number of positions of a sequence that get a trained vector.
  [[nodiscard]] std::int64_t positions(const Shape& shape) const { return (std::min)(prompt, shape[1]); }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
