#include <reef/nn/causal_attention.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>

#include "../laws/operator.hpp"
#include "operator_cases.hpp"

namespace reef::test {

using device::Host;

template <class... Cases>
using OnHost = ::testing::Types<Subject<Host, Cases>...>;

using LinearSubjects = OnHost<LinearCase, TransposedLinearCase>;
using AttentionSubjects = OnHost<AttentionCase, AttentionWithDropoutCase>;
using ElementwiseSubjects = OnHost<GeluCase, AddCase, DropoutCase>;

INSTANTIATE_TYPED_TEST_SUITE_P(Linear, OperatorLaws, LinearSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(LayerNorm, OperatorLaws, OnHost<LayerNormCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(Attention, OperatorLaws, AttentionSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Elementwise, OperatorLaws, ElementwiseSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Embedding, OperatorLaws, OnHost<EmbeddingCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(CrossEntropy, OperatorLaws, OnHost<CrossEntropyCase>);

namespace {

using Graph = graph::Graph<Host, double>;

Graph& add_alone(Graph& g, auto op, const std::vector<graph::TensorSpec>& inputs) {
  std::vector<int> refs;
  for (const graph::TensorSpec& spec : inputs) {
    refs.push_back(g.input("in" + std::to_string(refs.size()), spec));
  }
  g.add("op", op, refs);
  return g;
}

TEST(Operators, refuse_inputs_of_the_wrong_shape_or_element) {
  const graph::TensorSpec rows{{3, 4}, Element::float64};
  const graph::TensorSpec narrow{{3, 4}, Element::float32};
  const graph::TensorSpec tokens{{2, 5}, Element::int32};
  const graph::TensorSpec scalar{{}, Element::float64};
  const auto refuses = [](auto op, const std::vector<graph::TensorSpec>& inputs) {
    Graph g(1);
    EXPECT_THROW(add_alone(g, op, inputs), ShapeError) << decltype(op)::kind;
  };
  refuses(nn::Linear{3}, {narrow});
  refuses(nn::Linear{3}, {scalar});
  refuses(nn::LayerNorm{}, {narrow});
  refuses(nn::Gelu{}, {narrow});
  refuses(nn::Gelu{}, {rows, rows});
  refuses(nn::Add{}, {rows, narrow});
  refuses(nn::Add{}, {rows, {{4, 3}, Element::float64}});
  refuses(nn::Dropout{0.5F}, {scalar});
  refuses(nn::CausalAttention{2}, {rows});
  refuses(nn::CausalAttention{2}, {{{2, 3, 9}, Element::float64}});
  refuses(nn::Embedding{10, 4, 8}, {tokens});  // five positions, four vectors
  refuses(nn::Embedding{10, 5, 8}, {rows});
  refuses(nn::CrossEntropy{}, {rows, tokens});
  refuses(nn::CrossEntropy{}, {{{2, 5, 7}, Element::float64}, {{2, 5}, Element::float64}});
}

TEST(Operators, refuse_numbers_of_their_own_below_one_and_sizes_that_no_memory_has) {
  const graph::TensorSpec rows{{2, 3, 6}, Element::float64};
  const graph::TensorSpec tokens{{2, 5}, Element::int32};
  const auto refuses = [](auto op, const graph::TensorSpec& input, const char* text) {
    Graph g(1);
    try {
      add_alone(g, op, {input});
      ADD_FAILURE() << "no ShapeError: " << text;
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  refuses(nn::Linear{0}, rows, "its features is 0");
  refuses(nn::Linear{-3}, rows, "its features is -3");
  refuses(nn::Linear{huge}, rows, "of kind Linear has no shape");
  refuses(nn::Embedding{0, 5, 8}, tokens, "its vocabulary is 0");
  refuses(nn::Embedding{9, 0, 8}, tokens, "its positions is 0");
  refuses(nn::Embedding{9, 5, 0}, tokens, "its channels is 0");
  refuses(nn::Embedding{huge, 5, 8}, tokens, "more elements than any memory holds");
  refuses(nn::LayerNorm{-1}, rows, "LayerNorm: its epsilon is -1.\n  fix: 0 or more");
  refuses(nn::LayerNorm{std::numeric_limits<double>::quiet_NaN()}, rows, "its epsilon is nan");
  refuses(nn::LayerNorm{std::numeric_limits<double>::infinity()}, rows, "its epsilon is inf");
  refuses(nn::CausalAttention{0}, rows, "CausalAttention: its heads is 0.\n  fix: 1 or more");
  refuses(nn::CausalAttention{-2}, rows, "its heads is -2");
  refuses(nn::CausalAttention{huge}, rows, "heads");
}

TEST(Operators, refuse_a_dropout_rate_outside_its_range) {
  for (const float rate : {-0.1F, 1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    Graph g(1);
    EXPECT_THROW(add_alone(g, nn::Dropout{rate}, {{{2, 3}, Element::float64}}), OptionError);
  }
}

TEST(CrossEntropy, rows_with_target_minus_one_count_neither_in_the_loss_nor_in_the_gradient) {
  Host device({.threads = 1});
  Graph g(1);
  const int logits = g.input("logits", {{2, 3}, Element::float64}, true);
  const int targets = g.input("targets", {{2}, Element::int32});
  g.loss(g.add("loss", nn::CrossEntropy{}, {logits, targets})[0]);
  GraphRunner<Host, double> runner(device, g);
  runner.set(logits, std::vector<double>{0, 0, 0, 5, 6, 7});
  runner.set(targets, std::vector<std::int32_t>{2, -1});
  runner.forward();
  EXPECT_NEAR(runner.value(g.dag().loss)[0], std::log(3.0), 1e-15);
  runner.set_gradient(g.dag().loss, {1});
  runner.backward();
  const std::vector<double> wanted = {1.0 / 3, 1.0 / 3, -2.0 / 3, 0, 0, 0};
  EXPECT_LT(relative_error(runner.gradient(logits), wanted), 1e-15);
}

TEST(Dropout, draws_by_sample_whatever_the_batch_that_it_comes_in) {
  Host device({.threads = 2});
  const auto dropped = [&](std::int64_t batch, std::uint64_t first) {
    Graph g(2);
    const int in = g.input("in", {{batch, 3, 7}, Element::float64}, true);
    const int out = g.add("drop", nn::Dropout{0.3F}, {in})[0];
    GraphRunner<Host, double> runner(device, g);
    runner.set(in, std::vector<double>(static_cast<std::size_t>(batch) * 21, 1.0));
    runner.forward({99, first, 0, 0});
    return runner.value(out);
  };
  const std::vector<double> together = dropped(4, 10);
  std::vector<double> apart;
  for (std::uint64_t sample = 10; sample < 14; ++sample) {
    const std::vector<double> one = dropped(1, sample);
    apart.insert(apart.end(), one.begin(), one.end());
  }
  EXPECT_EQ(together, apart);
  const auto zeros = std::count(together.begin(), together.end(), 0.0);
  EXPECT_GT(zeros, 84 * 0.3 - 20);
  EXPECT_LT(zeros, 84 * 0.3 + 20);
}

TEST(LayerNorm, of_an_input_without_a_gradient_still_gives_those_of_its_parameters) {
  Host device({.threads = 2});
  Graph g(2);
  const int in = g.input("in", {{5, 6}, Element::float64});
  g.add("norm", nn::LayerNorm{}, {in});
  const auto [error, whose] = gradient_error(device, g, 1);
  EXPECT_LT(error, 1e-7) << whose;
}

}  // namespace
}  // namespace reef::test
