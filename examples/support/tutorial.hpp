#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/core/text.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/linear.hpp>

// What the programs of docs/tutorial.md share: an operator of one's own, and a model of it.
namespace tutorial {

/// Scales each row to a root mean square of 1, then each channel by a weight: y = w x / rms(x). Zhang and Sennrich, 2019.
struct RmsNorm {
  static constexpr std::string_view kind = "MyRmsNorm";

  reef::graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    call.expect_rows(0);
    const reef::Shape shape = call.inputs[0].shape;
    reef::graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.parameters = {{"weight", reef::Shape{shape.last()}, reef::graph::Init::ones(), false}};
    result.forward_flops = 4.0 * static_cast<double>(shape.size());
    result.backward_flops = 8.0 * static_cast<double>(shape.size());
    return result;
  }

  void forward(const auto& call) const {
    const auto x = call.input(0).span(), w = call.parameter(0).span();
    const auto y = call.output(0).span();
    for (std::size_t row = 0; row < x.size(); row += w.size()) {
      const double r = inverse_rms(x.subspan(row, w.size()));
      for (std::size_t c = 0; c < w.size(); ++c) set(y[row + c], w[c] * x[row + c] * r);
    }
  }

  void backward(const auto& call) const {
    const auto x = call.input(0).span(), w = call.parameter(0).span();
    const auto dy = call.output_gradient(0).span();
    const auto dw = call.parameter_gradient(0).span();
    if (!call.accumulate_parameters) std::fill(dw.begin(), dw.end(), 0);
    for (std::size_t row = 0; row < x.size(); row += w.size()) {
      const double r = inverse_rms(x.subspan(row, w.size()));
      double sum = 0;  // of w dy x over the row
      for (std::size_t c = 0; c < w.size(); ++c) {
        sum += w[c] * dy[row + c] * x[row + c];
        set(dw[c], dw[c] + dy[row + c] * x[row + c] * r);
      }
      if (!call.wants(0)) continue;
      const auto dx = call.input_gradient(0).span();
      for (std::size_t c = 0; c < w.size(); ++c) {
        const double d =
            r * (w[c] * dy[row + c] - x[row + c] * r * r * sum / static_cast<double>(w.size()));
        set(dx[row + c], call.accumulates(0) ? dx[row + c] + d : d);
      }
    }
  }

  static double inverse_rms(auto row) {
    double squares = 0;
    for (const double x : row) squares += x * x;
    return 1 / std::sqrt(squares / static_cast<double>(row.size()) + 1e-6);
  }

  template <class T>
  static void set(T& to, double value) {
    to = static_cast<T>(value);
  }
};

/// A GPT with RmsNorm where GPT-2 has LayerNorm: `layers` blocks over bytes, as the Trainers of the tutorial take it.
template <class T>
reef::graph::Graph<reef::device::Host, T> model(int layers, std::int64_t channels = 64,
                                                std::int64_t batch = 4, std::int64_t context = 32) {
  using namespace reef;
  graph::Graph<device::Host, T> g;
  const int tokens = g.input("tokens", {{batch, context}, Element::int32});
  const int targets = g.input("targets", {{batch, context}, Element::int32});
  const auto apply = [&](std::string_view block, const char* name, auto op, int x) {
    return g.add(concat(block, name), op, {x})[0];
  };
  int x = g.add("embedding", nn::Embedding{256, context, channels}, {tokens})[0];
  for (int layer = 0; layer < layers; ++layer) {
    const std::string block = concat("block.", layer, ".");
    int y = apply(block, "norm1", RmsNorm{}, x);
    y = apply(block, "attention.in", nn::Linear{3 * channels}, y);
    y = apply(block, "attention", nn::CausalAttention{4}, y);
    x = g.add(block + "add1", nn::Add{},
              {x, apply(block, "attention.out", nn::Linear{channels}, y)})[0];
    y = apply(block, "mlp.in", nn::Linear{4 * channels}, apply(block, "norm2", RmsNorm{}, x));
    y = apply(block, "mlp.out", nn::Linear{channels}, apply(block, "gelu", nn::Gelu{}, y));
    x = g.add(block + "add2", nn::Add{}, {x, y})[0];
  }
  const int logits = apply("", "head", nn::Linear{256}, apply("", "norm", RmsNorm{}, x));
  g.loss(g.add("loss", nn::CrossEntropy{}, {logits, targets})[0]);
  return g;
}

}  // namespace tutorial
