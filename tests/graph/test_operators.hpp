#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <reef/graph/operator.hpp>

/// Operators as a user writes them, for tests of the graph itself: scalar loops on the host, with
/// every shape that a node can have (parameters, two inputs, two outputs, in place, saved, scratch).
namespace reef::test {

using namespace reef;

/// out = in * w, elementwise over rows of w; one parameter. Its gradient lies over its input.
struct Scale {
  static constexpr std::string_view kind = "Scale";

  graph::Signature signature(const auto& call) const {
    const Shape& in = call.inputs[0].shape;
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.parameters = {{"weight", {in.last()}, graph::Init::ones(), true}};
    result.gradient_over_input = {0};
    return result;
  }
  void forward(const auto& call) const {
    const auto x = call.input(0).span();
    const auto w = call.parameter(0).span();
    const auto y = call.output(0).span();
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * w[i % w.size()];
  }
  void backward(const auto& call) const {
    const auto x = call.input(0).span();
    const auto w = call.parameter(0).span();
    const auto dy = call.output_gradient(0).span();
    if (call.wants_parameters()) {
      const auto dw = call.parameter_gradient(0).span();
      for (std::size_t i = 0; i < w.size() && !call.accumulate_parameters; ++i) dw[i] = 0;
      for (std::size_t i = 0; i < x.size(); ++i) dw[i % w.size()] += dy[i] * x[i];
    }
    if (!call.wants(0)) return;
    const auto dx = call.input_gradient(0).span();
    for (std::size_t i = 0; i < x.size(); ++i) {
      dx[i] = (call.accumulates(0) ? dx[i] : 0) + dy[i] * w[i % w.size()];
    }
  }
};

/// Scale with halves.
struct SplitScale {
  static constexpr std::string_view kind = "SplitScale";

  graph::Signature signature(const auto& call) const {
    graph::Signature result = Scale{}.signature(call);
    result.splits_backward = true;
    result.backward_flops = 5;
    result.weight_flops = 2;
    return result;
  }
  void forward(const auto& call) const { Scale{}.forward(call); }
  void backward(const auto& call) const { Scale{}.backward(call); }
};

/// out = w exp(in / 8), in place, with scratch memory in both halves, which read the output.
struct Exponential {
  static constexpr std::string_view kind = "Exponential";

  graph::Signature signature(const auto& call) const {
    graph::Signature result = Scale{}.signature(call);
    result.gradient_over_input.clear();
    result.gradient_shares = {{0, 0}};
    result.forward_shares = {{0, 0}};
    result.backward_reads_inputs = false;
    result.backward_reads_outputs = true;
    result.backward_workspace = call.inputs[0].bytes();
    result.splits_backward = true;
    return result;
  }
  void forward(const auto& call) const {
    const auto x = call.input(0).span();
    const auto w = call.parameter(0).span();
    const auto y = call.output(0).span();
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = w[i % w.size()] * std::exp(x[i] / 8);
  }
  void backward(const auto& call) const {
    const auto w = call.parameter(0).span();
    const auto y = call.output(0).span();
    const auto dy = call.output_gradient(0).span();
    auto* const scratch = static_cast<std::decay_t<decltype(y[0] + 0)>*>(call.workspace);
    for (std::size_t i = 0; i < y.size(); ++i) scratch[i] = dy[i] * y[i];
    if (call.wants_parameters()) {
      const auto dw = call.parameter_gradient(0).span();
      for (std::size_t i = 0; i < w.size() && !call.accumulate_parameters; ++i) dw[i] = 0;
      for (std::size_t i = 0; i < y.size(); ++i) dw[i % w.size()] += scratch[i] / w[i % w.size()];
    }
    if (!call.wants(0)) return;
    const auto dx = call.input_gradient(0).span();
    for (std::size_t i = 0; i < y.size(); ++i) {
      dx[i] = (call.accumulates(0) ? dx[i] : 0) + scratch[i] / 8;
    }
  }
};

/// out = a * b; cannot add to gradients, so the graph adds for it.
struct Multiply {
  static constexpr std::string_view kind = "Multiply";

  graph::Signature signature(const auto& call) const {
    call.expect_inputs(2);
    call.expect(1, call.inputs[0]);
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.overwrites_gradients = true;
    result.gradient_shares = {{0, 0}};
    return result;
  }
  void forward(const auto& call) const {
    const auto a = call.input(0).span();
    const auto b = call.input(1).span();
    const auto y = call.output(0).span();
    for (std::size_t i = 0; i < a.size(); ++i) y[i] = a[i] * b[i];
  }
  void backward(const auto& call) const {
    const auto a = call.input(0).span();
    const auto b = call.input(1).span();
    const auto dy = call.output_gradient(0).span();
    // The second first: the first may lie where dy lies.
    if (call.wants(1)) {
      const auto db = call.input_gradient(1).span();
      for (std::size_t i = 0; i < a.size(); ++i) db[i] = dy[i] * a[i];
    }
    if (call.wants(0)) {
      const auto da = call.input_gradient(0).span();
      for (std::size_t i = 0; i < a.size(); ++i) da[i] = dy[i] * b[i];
    }
  }
};

/// out = the sum of (i + 1) / 4 in_i over any number of inputs; writes their gradients from the last to the first.
struct Blend {
  static constexpr std::string_view kind = "Blend";

  graph::Signature signature(const auto& call) const {
    for (std::size_t i = 1; i < call.inputs.size(); ++i) call.expect(i, call.inputs[0]);
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.backward_reads_inputs = false;
    return result;
  }
  void forward(const auto& call) const {
    const auto y = call.output(0).span();
    for (std::size_t e = 0; e < y.size(); ++e) {
      y[e] = 0;
      for (std::size_t i = 0; i < call.inputs.size(); ++i) y[e] += static_cast<float>(i + 1) / 4 * call.input(i).span()[e];
    }
  }
  void backward(const auto& call) const {
    const auto dy = call.output_gradient(0).span();
    for (std::size_t i = call.writes.size(); i-- > 0;) {
      if (!call.wants(i)) continue;
      const auto dx = call.input_gradient(i).span();
      for (std::size_t e = 0; e < dx.size(); ++e) {
        dx[e] = (call.accumulates(i) ? dx[e] : 0) + static_cast<float>(i + 1) / 4 * dy[e];
      }
    }
  }
};

/// Two outputs, 2 in and in / 2 + 1/4; reads nothing in backward.
struct Fork {
  static constexpr std::string_view kind = "Fork";

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0], call.inputs[0]};
    result.backward_reads_inputs = false;
    result.forward_shares = {{0, 1}};
    result.gradient_shares = {{0, 0}, {0, 1}};
    return result;
  }
  void forward(const auto& call) const {
    const auto x = call.input(0).span();
    const auto twice = call.output(0).span();
    const auto more = call.output(1).span();
    for (std::size_t i = 0; i < x.size(); ++i) {
      twice[i] = 2 * x[i];
      more[i] = x[i] / 2 + 0.25F;
    }
  }
  void backward(const auto& call) const {
    if (!call.wants(0)) return;
    const auto a = call.output_gradient(0).span();
    const auto b = call.output_gradient(1).span();
    const auto dx = call.input_gradient(0).span();
    for (std::size_t i = 0; i < dx.size(); ++i) {
      dx[i] = (call.accumulates(0) ? dx[i] : 0) + (2 * a[i] + b[i] / 2);
    }
  }
};

/// out = in^2 / 2 by way of scratch memory; backward reads what forward saved and its own output.
struct Square {
  static constexpr std::string_view kind = "Square";

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.saved = {call.inputs[0]};
    result.forward_workspace = call.inputs[0].bytes();
    result.backward_workspace = call.inputs[0].bytes();
    result.backward_reads_inputs = false;
    result.backward_reads_outputs = true;
    result.forward_shares = {{0, 0}};
    result.gradient_shares = {{0, 0}};
    return result;
  }
  void forward(const auto& call) const {
    const auto x = call.input(0).span();
    const auto y = call.output(0).span();
    const auto kept = call.kept(0).span();
    auto* const scratch = static_cast<std::decay_t<decltype(y[0])>*>(call.workspace);
    for (std::size_t i = 0; i < x.size(); ++i) scratch[i] = x[i] * x[i];
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Backward needs the sign of in, and takes its size from the output.
      kept[i] = x[i] < 0 ? -1 : 1;
      y[i] = scratch[i] / 2;
    }
  }
  void backward(const auto& call) const {
    if (!call.wants(0)) return;
    const auto sign = call.kept(0).span();
    const auto y = call.output(0).span();
    const auto dy = call.output_gradient(0).span();
    const auto dx = call.input_gradient(0).span();
    auto* const scratch = static_cast<std::decay_t<decltype(dx[0])>*>(call.workspace);
    for (std::size_t i = 0; i < dx.size(); ++i) scratch[i] = sign[i] * std::sqrt(2 * y[i]);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      dx[i] = (call.accumulates(0) ? dx[i] : 0) + dy[i] * scratch[i];
    }
  }
};

/// out = a + b, gradients passed on without a copy: as nn::Add, but loops.
struct Sum {
  static constexpr std::string_view kind = "Sum";

  graph::Signature signature(const auto& call) const {
    call.expect_inputs(2);
    call.expect(1, call.inputs[0]);
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.backward_reads_inputs = false;
    result.forward_shares = {{1, 0}, {0, 0}};
    result.gradient_passes = {{0, 0}, {1, 0}};
    return result;
  }
  void forward(const auto& call) const {
    const auto a = call.input(0).span();
    const auto b = call.input(1).span();
    const auto y = call.output(0).span();
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = a[i] + b[i];
  }
  void backward(const auto& call) const {
    const auto dy = call.output_gradient(0).span();
    for (std::size_t k = 0; k < 2; ++k) {
      if (!call.wants(k)) continue;
      const auto dx = call.input_gradient(k).span();
      for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = (call.accumulates(k) ? dx[i] : 0) + dy[i];
    }
  }
};

/// The sum of squares of all elements, divided by their number; its gradient lies over its input.
struct MeanSquare {
  static constexpr std::string_view kind = "MeanSquare";

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.tensor({})};
    result.gradient_over_input = {0};
    return result;
  }
  void forward(const auto& call) const {
    const auto x = call.input(0).span();
    auto& loss = call.output(0).span()[0];
    loss = 0;
    for (const auto value : x)
      loss += value * value / static_cast<std::decay_t<decltype(loss)>>(x.size());
  }
  void backward(const auto& call) const {
    if (!call.wants(0)) return;
    const auto x = call.input(0).span();
    const auto d = call.output_gradient(0).span()[0];
    const auto dx = call.input_gradient(0).span();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto gradient = 2 * x[i] * d / static_cast<std::decay_t<decltype(d)>>(x.size());
      dx[i] = (call.accumulates(0) ? dx[i] : 0) + gradient;
    }
  }
};

}  // namespace reef::test
