#include <reef/graph/dag.hpp>

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/text.hpp>

namespace {

using namespace reef;
using graph::Dag;
using graph::Signature;
using graph::TensorSpec;

const TensorSpec three_rows{{3, 4}, Element::float32};
const TensorSpec ids{{3}, Element::int32};

Signature with_weight(Shape shape) {
  Signature signature;
  signature.outputs = {three_rows};
  signature.parameters = {{"weight", shape, graph::Init::normal(0.1), true}};
  return signature;
}

/// The message of the ShapeError that the call throws; the Dag must be as it was.
std::string refusal(Dag& dag, const std::function<void(Dag&)>& call) {
  const std::size_t nodes = dag.nodes.size();
  const std::size_t tensors = dag.tensors.size();
  const std::size_t parameters = dag.parameters.size();
  const std::size_t uses = dag.uses.size();
  std::string text = "no error";
  try {
    call(dag);
  } catch (const ShapeError& error) {
    text = error.what();
    EXPECT_NE(text.find("\n  fix: "), std::string::npos) << text;
  }
  EXPECT_EQ(dag.nodes.size(), nodes);
  EXPECT_EQ(dag.tensors.size(), tensors);
  EXPECT_EQ(dag.parameters.size(), parameters);
  EXPECT_EQ(dag.uses.size(), uses);
  return text;
}

TEST(Dag, numbers_tensors_uses_and_parameters_in_the_order_in_which_they_come) {
  Dag dag;
  const int x = dag.add_input("x", three_rows);
  const int a = dag.add_node("a", "Scale", {x}, with_weight({4}));
  Signature two = with_weight({2});
  two.outputs = {three_rows, ids};
  const int b = dag.add_node("b", "Fork", {dag.node_at(a).outputs[0]}, two);
  EXPECT_EQ(dag.tensor_at(2).name, "b.0");
  EXPECT_EQ(dag.tensor_at(3).name, "b.1");
  EXPECT_EQ(dag.tensor("b.1"), 3);
  EXPECT_EQ(dag.node("b"), b);
  EXPECT_EQ(dag.parameter("b.weight"), 1);
  EXPECT_EQ(dag.use_at(1).node, b);
  EXPECT_EQ(dag.parameter_count(), 6);
  EXPECT_EQ(dag.tensor_at(1).consumers, std::vector<int>{b});
}

TEST(Dag, knows_which_tensors_have_gradients) {
  Dag dag;
  Signature plain;
  plain.outputs = {three_rows};
  const int x = dag.add_input("x", three_rows);
  const int y = dag.add_input("y", three_rows, true);
  dag.add_node("of x", "Copy", {x}, plain);
  dag.add_node("of y", "Copy", {y}, plain);
  Signature weighted = with_weight({4});
  weighted.outputs.push_back(ids);
  dag.add_node("weighted", "Scale", {x}, weighted);
  EXPECT_FALSE(dag.tensor_at(dag.tensor("of x")).differentiable);
  EXPECT_TRUE(dag.tensor_at(dag.tensor("of y")).differentiable);
  EXPECT_TRUE(dag.tensor_at(dag.tensor("weighted.0")).differentiable);
  EXPECT_FALSE(dag.tensor_at(dag.tensor("weighted.1")).differentiable) << "integers";
}

TEST(Dag, shares_parameters_of_one_name) {
  Dag dag;
  const int x = dag.add_input("x", three_rows);
  dag.add_node("a", "Scale", {x}, with_weight({4}), {"w"});
  Signature other = with_weight({4});
  other.parameters[0].init = graph::Init::zeros();
  dag.add_node("b", "Scale", {x}, other, {"w"});
  ASSERT_EQ(dag.parameters.size(), 1U);
  EXPECT_EQ(dag.parameters[0].uses, (std::vector<int>{0, 1}));
  EXPECT_EQ(dag.parameters[0].init, graph::Init::normal(0.1)) << "the first use's";
}

TEST(Dag, refuses_what_does_not_fit_and_says_what) {
  Dag dag;
  const int x = dag.add_input("x", three_rows);
  dag.add_node("a", "Scale", {x}, with_weight({4}), {"w"});
  const auto expect = [&](const std::function<void(Dag&)>& call,
                          const std::vector<std::string>& parts) {
    const std::string text = refusal(dag, call);
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
    }
  };
  expect([](Dag& d) { d.add_input("x", three_rows); }, {"tensor 'x'", "exists"});
  expect([](Dag& d) { d.add_input("i", ids, true); }, {"'i'", "int32"});
  expect([](Dag& d) { d.add_node("a", "Scale", {0}, with_weight({4})); }, {"node 'a'", "exists"});
  expect([](Dag& d) { d.add_node("x", "Scale", {0}, with_weight({4})); }, {"tensor 'x'"});
  expect([](Dag& d) { d.add_node("b", "Scale", {9}, with_weight({4})); }, {"'b'", "9"});
  expect([](Dag& d) { d.add_node("b", "Scale", {-1}, with_weight({4})); }, {"'b'", "-1"});
  expect([](Dag& d) { d.add_node("b", "Scale", {0}, with_weight({5}), {"w"}); },
         {"'b'", "'w'", "(5)", "(4)"});
  expect([](Dag& d) { d.add_node("b", "Scale", {0}, with_weight({4}), {"w", "v"}); }, {"1", "2"});
  expect(
      [](Dag& d) {
        Signature twice = with_weight({4});
        twice.parameters.push_back({"bias", {5}, {}, false});
        d.add_node("b", "Scale", {0}, twice, {"v", "v"});
      },
      {"'v'", "(4)", "(5)"});
  expect([](Dag& d) { (void)d.tensor("nothing"); }, {"tensor 'nothing'"});
  expect([](Dag& d) { d.rename_node(1, "b"); }, {"the node 1", "the graph has 1"});
  expect([](Dag& d) { d.rename_node(-1, "b"); }, {"the node -1"});
  expect([](Dag& d) { d.set_loss(0); }, {"'x'", "(3, 4)", "one element"});
}

TEST(Dag, refuses_tensors_and_parameters_of_no_elements_by_name) {
  graph::Dag dag;
  const auto refused = [&](const auto& change, const char* text) {
    const graph::Dag before = dag;
    try {
      change();
      ADD_FAILURE() << "no ShapeError: " << text;
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
    EXPECT_EQ(dag.nodes.size(), before.nodes.size());
    EXPECT_EQ(dag.tensors.size(), before.tensors.size());
    EXPECT_EQ(dag.parameters.size(), before.parameters.size());
  };
  refused(
      [&] {
        dag.add_input("x", {{0, 4}, Element::float32});
      },
      "the input 'x' is (0, 4) fp32, of no elements");
  const int x = dag.add_input("x", {{2, 4}, Element::float32});
  graph::Signature empty;
  empty.outputs = {{{2, 4}, Element::float32}};
  empty.parameters = {{"weight", {4, 0}, graph::Init::zeros(), true}};
  refused([&] { dag.add_node("head", "Linear", {x}, empty); },
          "the node 'head' of kind Linear has the parameter 'head.weight' (4, 0), of no elements");
  empty.parameters.clear();
  empty.outputs = {{{2, 0}, Element::float32}};
  refused([&] { dag.add_node("head", "Linear", {x}, empty); }, "has the output 'head' (2, 0)");
  graph::Signature large;
  large.outputs = {{{2, 4}, Element::float32}};
  large.parameters = {{"a", {Shape::max_size}, graph::Init::zeros(), true},
                      {"b", {1}, graph::Init::zeros(), true}};
  refused([&] { dag.add_node("head", "Linear", {x}, large); },
          "more elements than any memory holds");
}

TEST(Dag, a_loss_is_a_scalar_that_nobody_reads) {
  Dag dag;
  Signature scalar;
  scalar.outputs = {{{}, Element::float32}};
  const int x = dag.add_input("x", three_rows, true);
  const int a = dag.node_at(dag.add_node("a", "Mean", {x}, scalar)).outputs[0];
  const int b = dag.node_at(dag.add_node("b", "Copy", {a}, scalar)).outputs[0];
  EXPECT_NE(refusal(dag, [&](Dag& d) { d.set_loss(a); }).find("'b'"), std::string::npos);
  dag.set_loss(b);
  const std::string text = refusal(dag, [&](Dag& d) { d.add_node("c", "Copy", {b}, scalar); });
  EXPECT_NE(text.find("reads the loss 'b'"), std::string::npos) << text;
}

TEST(Dag, renames_tensors_to_new_names_only) {
  Dag dag;
  const int x = dag.add_input("x", three_rows);
  dag.add_input("y", three_rows);
  EXPECT_THROW(dag.rename(x, "y"), ShapeError);
  dag.rename(x, "x");
  dag.rename(x, "logits");
  EXPECT_EQ(dag.tensor("logits"), x);
}

TEST(Dag, finds_nodes_and_tensors_by_their_last_names_alone) {
  Dag dag;
  const int x = dag.add_input("x", three_rows);
  const int a = dag.add_node("a", "Scale", {x}, with_weight({4}));
  const int b = dag.add_node("b", "Scale", {x}, with_weight({4}));
  EXPECT_NE(refusal(dag, [&](Dag& d) { d.rename_node(a, "b"); }).find("a node 'b' exists"), std::string::npos);
  dag.rename_node(a, "a");
  dag.rename_node(a, "first");
  dag.rename(x, "input");
  EXPECT_EQ(dag.node("first"), a);
  EXPECT_EQ(dag.node_at(a).name, "first");
  EXPECT_EQ(dag.tensor("a"), 1);
  EXPECT_EQ(dag.parameter("a.weight"), 0);
  EXPECT_THROW((void)dag.node("a"), ShapeError);
  EXPECT_THROW((void)dag.tensor("x"), ShapeError);
  EXPECT_EQ(dag.add_input("x", three_rows), 3);
  const Dag copy = dag;
  dag.rename_node(b, "a");
  EXPECT_EQ(dag.node("a"), b);
  EXPECT_EQ(copy.node("b"), b);
}

// In quadratic time this is minutes, and the test's time is over.
TEST(Dag, takes_a_hundred_thousand_nodes_at_once) {
  Dag dag;
  int x = dag.add_input("x", three_rows);
  const Signature signature = with_weight({4});
  for (int n = 0; n < 100'000; ++n) x = dag.node_at(dag.add_node(concat("n", n), "Scale", {x}, signature)).outputs[0];
  EXPECT_EQ(dag.node("n99999"), 99'999);
  EXPECT_EQ(dag.tensor("n99999"), x);
  EXPECT_EQ(dag.parameter_count(), 400'000);
}

}  // namespace
