// The operators that models such as Llama add: the laws, and each against its formula in fp64.

#include <reef/nn/grouped_attention.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/graph/check_gradients.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/mean_squared_error.hpp>
#include <reef/nn/relu.hpp>
#include <reef/nn/rms_norm.hpp>
#include <reef/nn/rotary.hpp>
#include <reef/nn/silu.hpp>
#include <reef/nn/swiglu.hpp>
#include <reef/nn/token_embedding.hpp>

#include "llama_operator_cases.hpp"
#include "run_alone.hpp"

namespace reef::test {

using device::Host;

template <class... Cases>
using OnHost = ::testing::Types<Subject<Host, Cases>...>;

using NormSubjects = OnHost<RmsNormCase, RmsNormOfHeadsCase>;
using RotarySubjects = OnHost<RotaryCase, ScaledRotaryCase>;
using GatedSubjects = OnHost<SiluCase, ReluCase, SwiGluCase>;
using GroupedSubjects =
    OnHost<GroupedAttentionCase, WindowAttentionCase, WindowAttentionWithDropoutCase>;
using OtherSubjects = OnHost<TokenEmbeddingCase, MeanSquaredErrorCase>;

INSTANTIATE_TYPED_TEST_SUITE_P(RmsNorm, OperatorLaws, NormSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Rotary, OperatorLaws, RotarySubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Gated, OperatorLaws, GatedSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(GroupedAttention, OperatorLaws, GroupedSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Other, OperatorLaws, OtherSubjects);

namespace {

using Graph = graph::Graph<Host, double>;

TEST(CheckGradients, passes_each_of_the_operators) {
  const auto passes = [](const auto& op, const std::vector<graph::TensorSpec>& inputs) {
    const graph::GradientCheck found = graph::check_gradients(op, inputs);
    EXPECT_TRUE(found.passed()) << found.text();
    EXPECT_GT(found.compared, 10);
  };
  passes(nn::RmsNorm{}, {fp64({4, 9})});
  passes(nn::RmsNorm{.width = 4}, {fp64({3, 2, 8})});
  passes(nn::Rotary{.head_size = 4}, {fp64({2, 3, 8})});
  passes(nn::Silu{}, {fp64({3, 7})});
  passes(nn::SwiGlu{}, {fp64({3, 7}), fp64({3, 7})});
  passes(nn::MeanSquaredError{}, {fp64({3, 7}), fp64({3, 7})});
  passes(nn::GroupedAttention{4, 2, 3}, {fp64({2, 6, 8}), fp64({2, 6, 4}), fp64({2, 6, 4})});
  passes(nn::TokenEmbedding{7, 5}, {{{2, 3}, Element::int32}});
}

TEST(GroupedAttention, is_its_formula_for_any_groups_head_size_and_window) {
  constexpr std::int64_t B = 2, T = 83;
  for (const auto& [H, K, D] : {std::array<std::int64_t, 3>{4, 4, 3}, {4, 2, 5}, {3, 1, 4}}) {
    for (const std::int64_t window : {0, 1, 17, 64, 82, 83, 1000}) {
      const Outputs run = run_alone(nn::GroupedAttention{H, K, window},
                                    {{B, T, H * D}, {B, T, K * D}, {B, T, K * D}});
      const Numbers& q = run.in[0];
      const Numbers& k = run.in[1];
      const Numbers& v = run.in[2];
      Numbers wanted(run.out.size());
      const auto at = [](std::int64_t row, std::int64_t heads, std::int64_t h, std::int64_t size,
                         std::int64_t i) {
        return static_cast<std::size_t>((row * heads + h) * size + i);
      };
      for (std::int64_t b = 0; b < B; ++b) {
        for (std::int64_t h = 0; h < H; ++h) {
          const std::int64_t g = h * K / H;
          for (std::int64_t t = 0; t < T; ++t) {
            const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, t - window + 1);
            double sum = 0;
            Numbers weights;
            for (std::int64_t s = first; s <= t; ++s) {
              double score = 0;
              for (std::int64_t i = 0; i < D; ++i)
                score += q[at(b * T + t, H, h, D, i)] * k[at(b * T + s, K, g, D, i)];
              weights.push_back(std::exp(score / std::sqrt(static_cast<double>(D))));
              sum += weights.back();
            }
            for (std::int64_t s = first; s <= t; ++s) {
              for (std::int64_t i = 0; i < D; ++i) {
                wanted[at(b * T + t, H, h, D, i)] += weights[static_cast<std::size_t>(s - first)] /
                                                     sum * v[at(b * T + s, K, g, D, i)];
              }
            }
          }
        }
      }
      EXPECT_LT(relative_error(run.out, wanted), 1e-13)
          << H << " heads on " << K << ", window " << window;
    }
  }
}

TEST(GroupedAttention, of_as_many_heads_of_keys_is_causal_attention) {
  constexpr std::int64_t T = 70, C = 12;
  const Outputs apart = run_alone(nn::GroupedAttention{3, 3}, {{1, T, C}, {1, T, C}, {1, T, C}});
  Host device({.threads = 1});
  Graph g(1);
  const int qkv = g.input("qkv", fp64({1, T, 3 * C}), true);
  const int out = g.add("op", nn::CausalAttention{3}, {qkv})[0];
  GraphRunner<Host, double> runner(device, g);
  Numbers together;
  for (std::int64_t t = 0; t < T; ++t) {
    for (const Numbers& part : apart.in)
      together.insert(together.end(), part.begin() + t * C, part.begin() + (t + 1) * C);
  }
  runner.set(qkv, together);
  runner.forward();
  EXPECT_EQ(runner.value(out), apart.out);
}

TEST(Rotary, turns_pairs_of_halves_by_the_position_times_their_frequency) {
  constexpr std::int64_t T = 75, H = 2, D = 6;
  const Outputs run = run_alone(nn::Rotary{.head_size = D, .theta = 100}, {{2, T, H * D}});
  Numbers wanted(run.out.size());
  for (std::int64_t row = 0; row < 2 * T; ++row) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t i = 0; i < D / 2; ++i) {
        const double angle =
            static_cast<double>(row % T) * std::pow(100.0, -2.0 * static_cast<double>(i) / D);
        const auto a = static_cast<std::size_t>((row * H + h) * D + i);
        const std::size_t b = a + D / 2;
        wanted[a] = run.in[0][a] * std::cos(angle) - run.in[0][b] * std::sin(angle);
        wanted[b] = run.in[0][b] * std::cos(angle) + run.in[0][a] * std::sin(angle);
      }
    }
  }
  EXPECT_LT(relative_error(run.out, wanted), 1e-13);
}

TEST(RotaryFrequencies, of_linear_scaling_are_divided_and_of_llama_3_the_slow_ones_alone) {
  EXPECT_DOUBLE_EQ((nn::RotaryFrequencies{100, 4}.of(1, 4)), 0.1 / 4);
  const nn::RotaryFrequencies llama{500000, 8, 8192, 1, 4};
  for (std::int64_t i = 0; i < 64; ++i) {
    const double plain = std::pow(500000.0, -2.0 * static_cast<double>(i) / 128);
    const double wave = 2 * std::numbers::pi / plain;  // positions of a turn
    double wanted = plain;
    if (wave > 8192.0 / 1) {
      wanted = plain / 8;
    } else if (wave > 8192.0 / 4) {
      const double smooth = (8192 / wave - 1) / (4 - 1);
      wanted = (1 - smooth) * plain / 8 + smooth * plain;
    }
    EXPECT_NEAR(llama.of(i, 128), wanted, 1e-14 * wanted) << i;
  }
}

TEST(RmsNorm, is_its_formula_of_rows_and_of_parts_of_them) {
  for (const std::int64_t width : {0, 5}) {
    const Outputs run = run_alone(nn::RmsNorm{.epsilon = 0.01, .width = width}, {{3, 4, 10}});
    const std::int64_t C = width == 0 ? 10 : width;
    Numbers wanted;
    for (std::size_t row = 0; row < run.out.size(); row += static_cast<std::size_t>(C)) {
      double squares = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(C); ++i)
        squares += run.in[0][row + i] * run.in[0][row + i];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(C) + 0.01);
      for (std::size_t i = 0; i < static_cast<std::size_t>(C); ++i)
        wanted.push_back(run.in[0][row + i] * scale * (1 + 0.1 * static_cast<double>(i)));
    }
    EXPECT_LT(relative_error(run.out, wanted), 1e-14) << width;
  }
}

TEST(Gated, units_are_their_formulas) {
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  Numbers wanted;
  const Outputs one = run_alone(nn::Silu{}, {{5, 9}});
  for (const double x : one.in[0]) wanted.push_back(silu(x));
  EXPECT_LT(relative_error(one.out, wanted), 1e-14);
  wanted.clear();
  const Outputs both = run_alone(nn::SwiGlu{}, {{5, 9}, {5, 9}});
  for (std::size_t i = 0; i < both.out.size(); ++i)
    wanted.push_back(silu(both.in[0][i]) * both.in[1][i]);
  EXPECT_LT(relative_error(both.out, wanted), 1e-14);
  wanted.clear();
  const Outputs relu = run_alone(nn::Relu{}, {{5, 9}});
  for (const double x : relu.in[0]) wanted.push_back(x > 0 ? x : 0);
  EXPECT_EQ(relu.out, wanted);
}

TEST(MeanSquaredError, is_its_formula_over_several_blocks) {
  const Outputs run = run_alone(nn::MeanSquaredError{}, {{3, 2000}, {3, 2000}});
  double sum = 0;
  for (std::size_t i = 0; i < run.in[0].size(); ++i)
    sum += (run.in[0][i] - run.in[1][i]) * (run.in[0][i] - run.in[1][i]);
  EXPECT_NEAR(run.out[0], sum / 6000, 1e-14);
}

TEST(LlamaOperators, refuse_what_cannot_be_with_the_number) {
  const auto refuses = [](auto op, const std::vector<graph::TensorSpec>& inputs, const char* text) {
    Graph g(1);
    std::vector<int> refs;
    for (const auto& spec : inputs)
      refs.push_back(g.input("in" + std::to_string(refs.size()), spec));
    try {
      g.add("op", op, refs);
      ADD_FAILURE() << "nothing thrown: " << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto rows = fp64({2, 3, 6});
  const graph::TensorSpec tokens{{2, 5}, Element::int32};
  refuses(nn::RmsNorm{-1}, {rows}, "its epsilon is -1");
  refuses(nn::RmsNorm{1e-5, 4}, {rows}, "a multiple of its width, 4");
  refuses(nn::RmsNorm{1e-5, -2}, {rows}, "a multiple of its width, -2");
  refuses(nn::Rotary{}, {rows}, "its head_size is 0");
  refuses(nn::Rotary{.head_size = 3}, {rows}, "D = 3, which must be even");
  refuses(nn::Rotary{.head_size = 4}, {rows}, "(B, T, H D) with D = 4");
  refuses(nn::Rotary{.head_size = 2}, {fp64({3, 6})}, "(B, T, H D)");
  refuses(nn::Rotary{.head_size = 2, .theta = 0}, {rows}, "theta is 0");
  refuses(nn::Rotary{.head_size = 2, .theta = nan}, {rows}, "theta is nan");
  refuses(nn::Rotary{.head_size = 2, .factor = -1}, {rows}, "factor is -1");
  refuses(nn::Rotary{.head_size = 2, .original = -1}, {rows}, "original is -1");
  refuses(nn::Rotary{.head_size = 2, .low = 4}, {rows}, "high is 4");
  refuses(nn::Silu{}, {tokens}, "Silu");
  refuses(nn::Relu{}, {rows, rows}, "takes 1 inputs");
  refuses(nn::SwiGlu{}, {rows, fp64({2, 3, 5})}, "give it (2, 3, 6) fp64");
  refuses(nn::MeanSquaredError{}, {rows, tokens}, "give it (2, 3, 6) fp64");
  refuses(nn::GroupedAttention{0, 1}, {rows, rows, rows}, "its heads is 0");
  refuses(nn::GroupedAttention{2, 0}, {rows, rows, rows}, "its kv_heads is 0");
  refuses(nn::GroupedAttention{2, 1, -1}, {rows, rows, rows}, "its window is -1");
  refuses(nn::GroupedAttention{3, 2}, {rows, rows, rows}, "a multiple of the 2");
  refuses(nn::GroupedAttention{2, 1}, {rows, rows, rows}, "give it (2, 3, 3) fp64");
  refuses(nn::GroupedAttention{2, 2, 0, 1.0F}, {rows, rows, rows}, "dropout rate is 1");
  refuses(nn::TokenEmbedding{0, 3}, {tokens}, "its vocabulary is 0");
  refuses(nn::TokenEmbedding{5, 3}, {rows}, "(B, T) int32");
}

}  // namespace
}  // namespace reef::test
