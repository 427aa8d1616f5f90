#include <reef/graph/check_gradients.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "test_operators.hpp"

namespace reef::test {
namespace {

using device::Host;

/// out = in w^2, by rows, w a parameter; of which some ways go wrong.
struct SquareScale {
  enum class Fault { none, one_entry, two_percent, forgets_to_add, forgets_a_row, adds_to_nothing };
  static constexpr std::string_view kind = "SquareScale";

  Fault fault = Fault::none;

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.parameters = {{"w", {call.inputs[0].shape.last()}, graph::Init::ones(), false}};
    return result;
  }
  void forward(const auto& call) const {
    const auto x = call.input(0).span(), w = call.parameter(0).span(), y = call.output(0).span();
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * w[i % w.size()] * w[i % w.size()];
  }
  void backward(const auto& call) const {
    const auto x = call.input(0).span(), w = call.parameter(0).span(), dy = call.output_gradient(0).span();
    const auto dw = call.parameter_gradient(0).span();
    for (std::size_t c = 0; c < dw.size(); ++c) {
      if (fault != Fault::adds_to_nothing && (!call.accumulate_parameters || fault == Fault::forgets_to_add)) dw[c] = 0;
    }
    for (std::size_t i = 0; i < x.size(); ++i) dw[i % w.size()] += 2 * dy[i] * x[i] * w[i % w.size()];
    if (fault == Fault::two_percent) {
      for (auto& gradient : dw) gradient *= 1.02F;
    }
    if (!call.wants(0)) return;
    const auto dx = call.input_gradient(0).span();
    for (std::size_t i = fault == Fault::forgets_a_row ? w.size() : 0; i < x.size(); ++i) {
      dx[i] = (call.accumulates(0) ? dx[i] : 0) + dy[i] * w[i % w.size()] * w[i % w.size()];
    }
    if (fault == Fault::one_entry) dx[7] += 1;
  }
};

/// out = exp(in), whose backward reads its output, or goes wrong.
struct FromOutput {
  enum class Fault { none, asks_for_no_output, asks_for_no_input, never_adds, writes_what_nobody_wants, writes_behind };
  static constexpr std::string_view kind = "FromOutput";

  Fault fault = Fault::none;

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.parameters = {{"w", {call.inputs[0].shape.last()}, graph::Init::ones(), false}};
    result.backward_reads_outputs = fault != Fault::asks_for_no_output;
    result.backward_reads_inputs = false;
    return result;
  }
  void forward(const auto& call) const {
    const auto x = call.input(0).span(), w = call.parameter(0).span(), y = call.output(0).span();
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = w[i % w.size()] * std::exp(x[i]);
  }
  void backward(const auto& call) const {
    const auto y = call.output(0).span(), w = call.parameter(0).span(), dy = call.output_gradient(0).span();
    const auto dw = call.parameter_gradient(0).span();
    if (!call.accumulate_parameters) std::ranges::fill(dw, 0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double e = fault == Fault::asks_for_no_input ? std::exp(call.input(0).span()[i]) : y[i] / w[i % w.size()];
      dw[i % w.size()] += dy[i] * e;
    }
    if (fault == Fault::writes_behind) dw.data()[dw.size()] = 0;
    const auto dx = call.input_gradient(0).span();
    if (!call.wants(0) && fault == Fault::writes_what_nobody_wants) dw[0] = static_cast<double>(dx.size());
    for (std::size_t i = 0; i < dx.size(); ++i) {
      dx[i] = (call.accumulates(0) && fault != Fault::never_adds ? dx[i] : 0) + dy[i] * y[i];
    }
  }
};

const std::vector<graph::TensorSpec> matrix{{{3, 4}, Element::float64}};

TEST(CheckGradients, passes_operators_whose_backward_is_the_derivative) {
  for (const auto& found : {graph::check_gradients(SquareScale{}, matrix), graph::check_gradients(Scale{}, matrix),
                            graph::check_gradients(Exponential{}, matrix), graph::check_gradients(Fork{}, matrix),
                            graph::check_gradients(Multiply{}, {matrix[0], matrix[0]})}) {
    EXPECT_TRUE(found.passed()) << found.text();
    EXPECT_LT(found.error, 1e-8) << found.text();
    EXPECT_GT(found.compared, 0);
  }
}

TEST(CheckGradients, names_the_entry_that_is_furthest_off_with_both_numbers) {
  const auto found = graph::check_gradients(SquareScale{SquareScale::Fault::one_entry}, matrix);
  EXPECT_FALSE(found);
  EXPECT_EQ(found.name, "input 0");
  EXPECT_EQ(found.index, 7);
  EXPECT_EQ(found.shape, (Shape{3, 4}));
  EXPECT_FALSE(found.added);
  EXPECT_NEAR(found.backward - found.differences, 1, 1e-9);
  EXPECT_EQ(found.compared, 3 * 4 + 4);
  EXPECT_NE(found.text().find("d / d 'input 0'[1, 3]: backward "), std::string::npos) << found.text();
  EXPECT_NE(found.text().find(", differences "), std::string::npos) << found.text();
}

TEST(CheckGradients, finds_gradients_of_parameters_that_a_second_micro_batch_does_not_add_to) {
  const auto found = graph::check_gradients(SquareScale{SquareScale::Fault::forgets_to_add}, matrix);
  EXPECT_FALSE(found);
  EXPECT_EQ(found.name, "SquareScale.w");
  EXPECT_TRUE(found.added);
  EXPECT_NEAR(found.backward, found.differences / 2, 1e-9);
  EXPECT_NE(found.text().find("where a second micro-batch is added"), std::string::npos) << found.text();
}

TEST(CheckGradients, finds_what_was_not_written_or_added_to_what_was_not) {
  for (const auto fault : {SquareScale::Fault::forgets_a_row, SquareScale::Fault::adds_to_nothing}) {
    const auto found = graph::check_gradients(SquareScale{fault}, matrix);
    EXPECT_FALSE(found) << found.text();
    EXPECT_TRUE(std::isnan(found.backward)) << found.text();
    EXPECT_EQ(found.error, HUGE_VAL);
  }
}

TEST(CheckGradients, finds_a_backward_that_reads_values_which_its_signature_does_not_ask_for) {
  const auto right = graph::check_gradients(FromOutput{}, matrix);
  EXPECT_TRUE(right) << right.text();
  EXPECT_EQ(right.compared, (12 + 4) + (12 + 4) + 4) << "alone, beside another reader, where the input's is not wanted";
  const auto found = graph::check_gradients(FromOutput{FromOutput::Fault::asks_for_no_input}, matrix);
  EXPECT_FALSE(found);
  EXPECT_NE(found.text().find("nan: backward left the entry unwritten"), std::string::npos) << found.text();
  EXPECT_NE(found.text().find("backward_reads_inputs"), std::string::npos) << found.text();
  try {
    graph::check_gradients(FromOutput{FromOutput::Fault::asks_for_no_output}, matrix);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a backward reads its output 0"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("fix: backward_reads_outputs = true"), std::string::npos) << error.what();
  }
}

TEST(CheckGradients, checks_where_another_node_reads_the_input_too_and_where_nobody_wants_its_gradient) {
  const auto adds = graph::check_gradients(FromOutput{FromOutput::Fault::never_adds}, matrix);
  EXPECT_FALSE(adds);
  EXPECT_NE(adds.text().find(", where others read its inputs too: backward "), std::string::npos) << adds.text();
  const auto unwanted = graph::check_gradients(FromOutput{FromOutput::Fault::writes_what_nobody_wants}, matrix);
  EXPECT_FALSE(unwanted);
  EXPECT_EQ(unwanted.name, "FromOutput.w");
  EXPECT_EQ(unwanted.backward, 0) << "the gradient that nobody wants is an empty span of the graph's element";
  EXPECT_NE(unwanted.text().find(", where nobody wants the gradient of 'input 0': backward "), std::string::npos)
      << unwanted.text();
}

TEST(CheckGradients, finds_a_write_behind_a_gradient) {
  try {
    graph::check_gradients(FromOutput{FromOutput::Fault::writes_behind}, matrix);
    FAIL() << "nothing was thrown";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("wrote behind the gradient of 'FromOutput.w'"), std::string::npos) << error.what();
  }
}

/// Asks for a parameter that it has not declared.
struct OneParameterMore : SquareScale {
  void forward(const auto& call) const { static_cast<void>(call.parameter(1)); }
};

TEST(Operands, that_an_operator_has_not_are_refused_by_their_number) {
  try {
    graph::check_gradients(OneParameterMore{}, matrix);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("asks for its parameter 1, and has 1, numbered from 0"), std::string::npos)
        << error.what();
  }
}

TEST(CheckGradients, of_fp32_passes_what_is_right_and_finds_two_percent) {
  for (const auto fault : {SquareScale::Fault::none, SquareScale::Fault::two_percent}) {
    Host host({.threads = 2});
    graph::Graph<Host, float> g(1);
    const int in = g.input("in", {{3, 4}, Element::float32});
    g.add("scale", SquareScale{fault}, {in});
    const auto found = graph::check_gradients(host, g);
    EXPECT_EQ(found.passed(), fault == SquareScale::Fault::none) << found.text();
    EXPECT_EQ(found.tolerance, 5e-3);
    EXPECT_EQ(found.name, "scale.w") << "the input is not differentiable";
  }
}

TEST(CheckGradients, sums_the_uses_of_a_tied_parameter_and_takes_the_loss_alone) {
  Host host({.threads = 1});
  graph::Graph<Host, double> g(1);
  const int in = g.input("in", {{3, 4}, Element::float64}, true);
  const int once = g.add("once", SquareScale{}, {in}, {"shared"})[0];
  const int twice = g.add("twice", Scale{}, {once}, {"shared"})[0];
  const int beside = g.add("beside", Multiply{}, {twice, in})[0];
  g.loss(g.add("loss", MeanSquare{}, {beside})[0]);
  const auto found = graph::check_gradients(host, g, {.entries = 3, .seed = 5});
  EXPECT_TRUE(found.passed()) << found.text();
  EXPECT_EQ(found.compared, 3 + 3);
}

TEST(CheckGradients, refuses_graphs_without_gradients_and_options_that_cannot_be) {
  Host host({.threads = 1});
  graph::Graph<Host, double> g(1);
  g.add("square", Square{}, {g.input("in", {{3, 4}, Element::float64})});
  EXPECT_THROW(graph::check_gradients(host, g), OptionError);
  EXPECT_THROW(graph::check_gradients(Square{}, matrix, {.low = 1, .high = 1}), OptionError);
  EXPECT_THROW(graph::check_gradients(Square{}, matrix, {.entries = 0}), OptionError);
  EXPECT_THROW(graph::check_gradients(Square{}, matrix, {.tolerance = std::nan("")}), OptionError);
}

/// Needs scratch memory for each thread.
struct PerThread : Square {
  graph::Signature signature(const auto& call) const {
    graph::Signature result = Square::signature(call);
    result.forward_workspace = 64 * static_cast<Bytes>(call.threads);
    result.backward_workspace = 128 * static_cast<Bytes>(call.threads);
    return result;
  }
};

TEST(Serving, a_graph_has_scratch_memory_for_as_many_threads_as_the_device_and_keeps_what_it_had) {
  graph::Graph<Host, double> g(2);
  g.add("square", PerThread{}, {g.input("in", {{3, 4}, Element::float64}, true)});
  EXPECT_EQ(g.serving(1).workspaces(), (std::vector<Bytes>{128, 256}));
  EXPECT_EQ(g.serving(1).threads(), 2);
  EXPECT_EQ(g.serving(5).workspaces(), (std::vector<Bytes>{320, 640}));
  EXPECT_EQ(g.serving(5).threads(), 5);
  const std::vector<Bytes> asked{1024, 64};
  g.enlarge_workspaces(asked);
  EXPECT_EQ(g.serving(5).workspaces(), (std::vector<Bytes>{1024, 640})) << "what other ranks need stays";
  EXPECT_EQ(g.workspaces(), (std::vector<Bytes>{1024, 256}));
}

}  // namespace
}  // namespace reef::test
