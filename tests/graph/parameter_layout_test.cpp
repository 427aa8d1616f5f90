#include <reef/graph/parameter_layout.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace reef;
using graph::Dag;
using graph::ParameterLayout;
using graph::Signature;

Dag with_tied() {
  Dag dag;
  const graph::TensorSpec rows{{3, 4}, Element::float32};
  Signature signature;
  signature.outputs = {rows};
  signature.parameters = {{"w", {4, 5}, graph::Init::normal(0.5), true},
                          {"b", {7}, graph::Init::ones(), false}};
  const int x = dag.add_input("x", rows);
  dag.add_node("first", "Op", {x}, signature, {"tied", "one"});
  dag.add_node("second", "Op", {x}, signature, {"tied", "two"});
  return dag;
}

TEST(ParameterLayout, puts_first_uses_where_the_parameters_are_and_tied_uses_behind_all) {
  const ParameterLayout layout = graph::parameter_layout(with_tied());
  EXPECT_EQ(layout.parameters, (std::vector<std::int64_t>{0, 32, 48}));
  EXPECT_EQ(layout.parameter_elements, 64);
  EXPECT_EQ(layout.uses, (std::vector<std::int64_t>{0, 32, 64, 48}));
  EXPECT_EQ(layout.gradient_elements, 96);
}

TEST(ParameterLayout, puts_frozen_parameters_behind_all_trained_ones) {
  Dag dag = with_tied();
  dag.freeze("one");
  ParameterLayout layout = graph::parameter_layout(dag);
  EXPECT_EQ(layout.parameters, (std::vector<std::int64_t>{0, 48, 32}));
  EXPECT_EQ(layout.trained_elements, 48);
  EXPECT_EQ(layout.parameter_elements, 64);
  EXPECT_EQ(layout.uses, (std::vector<std::int64_t>{0, -1, 48, 32}));
  EXPECT_EQ(layout.gradient_elements, 80);
  dag.freeze("t*");  // "tied" and "two"
  layout = graph::parameter_layout(dag);
  EXPECT_EQ(layout.uses, (std::vector<std::int64_t>{-1, -1, -1, -1}));
  EXPECT_EQ(layout.gradient_elements, 0);
}

TEST(Initialise, makes_any_part_with_the_same_bits) {
  const Dag dag = with_tied();
  const graph::Parameter& parameter = dag.parameter_at(0);
  std::vector<float> whole(20);
  graph::initialise(parameter, {1, 0, 0, 0}, whole.data());
  std::vector<float> parts(20);
  graph::initialise(parameter, {1, 0, 0, 0}, parts.data() + 13, 13, 20);
  graph::initialise(parameter, {1, 0, 0, 0}, parts.data(), 0, 13);
  EXPECT_EQ(parts, whole);
  std::vector<float> other(20);
  graph::initialise(parameter, {2, 0, 0, 0}, other.data());
  EXPECT_NE(other, whole);
}

TEST(Initialise, writes_given_values_by_their_places) {
  graph::Parameter parameter{"w", {{3, 4}, Element::float32}, graph::Init::given([](std::int64_t i) { return 0.5 * static_cast<double>(i); }), true, {}};
  std::vector<float> part(3);
  graph::initialise(parameter, {1, 0, 0, 0}, part.data(), 7, 10);
  EXPECT_EQ(part, (std::vector<float>{3.5F, 4, 4.5F}));
}

TEST(Initialise, follows_the_law_of_the_parameter) {
  graph::Parameter parameter{
      "w", {{100000}, Element::float64}, graph::Init::normal(0.25), true, {}};
  std::vector<double> values(100000);
  graph::initialise(parameter, {3, 0, 0, 7}, values.data());
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  // Six deviations of the mean and of the variance of 100000 draws.
  EXPECT_NEAR(sum / 1e5, 0, 6 * 0.25 / std::sqrt(1e5));
  EXPECT_NEAR(squares / 1e5, 0.0625, 6 * 0.0625 * std::sqrt(2 / 1e5));
  parameter.init = graph::Init::ones();
  graph::initialise(parameter, {}, values.data());
  EXPECT_EQ(values, std::vector<double>(100000, 1.0));
  parameter.init = graph::Init::zeros();
  graph::initialise(parameter, {}, values.data());
  EXPECT_EQ(values, std::vector<double>(100000, 0.0));
}

}  // namespace
