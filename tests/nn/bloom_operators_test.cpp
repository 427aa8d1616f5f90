// What BLOOM and GPT-NeoX add to the operators: the laws, and each against its formula in fp64.

#include <reef/nn/split_heads.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/graph/check_gradients.hpp>
#include <reef/nn/detail/alibi_slope.hpp>
#include <reef/nn/exact_gelu.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/rotary.hpp>

#include "bloom_operator_cases.hpp"
#include "run_alone.hpp"

namespace reef::test {

using device::Host;

template <class... Cases>
using OnHost = ::testing::Types<Subject<Host, Cases>...>;

using AlibiSubjects = OnHost<AlibiCase, AlibiWindowCase, AlibiDropoutCase>;
using NeoxSubjects = OnHost<PartialRotaryCase, ExactGeluCase, SplitHeadsCase>;
INSTANTIATE_TYPED_TEST_SUITE_P(Alibi, OperatorLaws, AlibiSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Neox, OperatorLaws, NeoxSubjects);

namespace {

TEST(CheckGradients, passes_each_of_the_operators) {
  const auto passes = [](const auto& op, const std::vector<graph::TensorSpec>& inputs) {
    const graph::GradientCheck found = graph::check_gradients(op, inputs);
    EXPECT_TRUE(found.passed()) << found.text();
    EXPECT_GT(found.compared, 10);
  };
  passes(nn::ExactGelu{}, {fp64({3, 7})});
  passes(nn::SplitHeads{2}, {fp64({2, 3, 12})});
  passes(nn::Rotary{.head_size = 5, .turned = 2}, {fp64({2, 3, 10})});
  passes(nn::GroupedAttention{.heads = 3, .kv_heads = 3, .alibi = true}, {fp64({2, 6, 6}), fp64({2, 6, 6}), fp64({2, 6, 6})});
}

/// Slopes as modeling_bloom.py finds them: powers of a base, and for heads beyond a power of two the odd powers of another.
std::vector<double> slopes_of_bloom(std::int64_t heads) {
  const double power = std::pow(2.0, std::floor(std::log2(static_cast<double>(heads))));
  const double base = std::pow(2.0, -std::pow(2.0, -(std::log2(power) - 3)));
  const double other = std::pow(2.0, -std::pow(2.0, -(std::log2(2 * power) - 3)));
  std::vector<double> slopes;
  for (int i = 1; i <= static_cast<int>(power); ++i) slopes.push_back(std::pow(base, i));
  for (int i = 1; std::ssize(slopes) < heads; i += 2) slopes.push_back(std::pow(other, i));
  return slopes;
}

TEST(Alibi, has_the_slopes_of_bloom) {
  for (const std::int64_t heads : {1, 2, 3, 4, 6, 8, 12, 16, 20, 31, 32, 112}) {
    const std::vector<double> slopes = slopes_of_bloom(heads);
    for (std::int64_t h = 0; h < heads; ++h) {
      EXPECT_NEAR(nn::detail::alibi_slope(h, heads), slopes[static_cast<std::size_t>(h)], 1e-14) << h << " of " << heads;
    }
  }
  EXPECT_EQ(nn::detail::alibi_slope(0, 8), 0.5);
  EXPECT_EQ(nn::detail::alibi_slope(7, 8), 0x1p-8);
  EXPECT_EQ(nn::detail::alibi_slope(0, 1), 0x1p-8);
}

TEST(Alibi, is_its_formula_for_any_heads_and_window) {
  constexpr std::int64_t B = 2, T = 83, D = 5;
  for (const auto& [H, K] : {std::array<std::int64_t, 2>{4, 4}, {6, 2}, {3, 1}}) {
    for (const std::int64_t window : {0, 17, 64}) {
      const nn::GroupedAttention op{.heads = H, .kv_heads = K, .window = window, .alibi = true};
      const Outputs run = run_alone(op, {{B, T, H * D}, {B, T, K * D}, {B, T, K * D}});
      const std::vector<double> slopes = slopes_of_bloom(H);
      const auto at = [](std::int64_t row, std::int64_t heads, std::int64_t h, std::int64_t i) {
        return static_cast<std::size_t>((row * heads + h) * D + i);
      };
      Numbers wanted(run.out.size());
      for (std::int64_t task = 0; task < B * H * T; ++task) {
        const std::int64_t b = task / (H * T), h = task / T % H, t = task % T, g = h * K / H;
        Numbers weights;
        double sum = 0;
        const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, t - window + 1);
        for (std::int64_t s = first; s <= t; ++s) {
          double score = 0;
          for (std::int64_t i = 0; i < D; ++i) score += run.in[0][at(b * T + t, H, h, i)] * run.in[1][at(b * T + s, K, g, i)];
          score /= std::sqrt(static_cast<double>(D));
          // As BLOOM adds it: by the key's position alone. A softmax does not see what all of a row have.
          weights.push_back(std::exp(score + slopes[static_cast<std::size_t>(h)] * static_cast<double>(s)));
          sum += weights.back();
        }
        for (std::int64_t s = first; s <= t; ++s) {
          for (std::int64_t i = 0; i < D; ++i) {
            wanted[at(b * T + t, H, h, i)] += weights[static_cast<std::size_t>(s - first)] / sum * run.in[2][at(b * T + s, K, g, i)];
          }
        }
      }
      EXPECT_LT(relative_error(run.out, wanted), 1e-13) << H << " heads on " << K << ", window " << window;
    }
  }
}

TEST(Rotary, turns_the_first_columns_of_a_head_alone) {
  constexpr std::int64_t T = 75, H = 2, D = 7, R = 4;
  const Outputs run = run_alone(nn::Rotary{.head_size = D, .theta = 100, .turned = R}, {{2, T, H * D}});
  Numbers wanted = run.in[0];
  for (std::int64_t row = 0; row < 2 * T; ++row) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t i = 0; i < R / 2; ++i) {
        const double angle = static_cast<double>(row % T) * std::pow(100.0, -2.0 * static_cast<double>(i) / R);
        const auto a = static_cast<std::size_t>((row * H + h) * D + i);
        const std::size_t b = a + R / 2;
        wanted[a] = run.in[0][a] * std::cos(angle) - run.in[0][b] * std::sin(angle);
        wanted[b] = run.in[0][b] * std::cos(angle) + run.in[0][a] * std::sin(angle);
      }
    }
  }
  EXPECT_LT(relative_error(run.out, wanted), 1e-13);
}

TEST(SplitHeads, takes_queries_keys_and_values_of_each_head_apart) {
  constexpr std::int64_t rows = 6, H = 2, D = 5;
  Host device({.threads = 2});
  graph::Graph<Host, double> g(2);
  const int in = g.input("in", fp64({2, 3, 3 * H * D}), true);
  const std::vector<int> parts = g.add("op", nn::SplitHeads{H}, {in});
  ASSERT_EQ(parts.size(), 3U);
  GraphRunner<Host, double> runner(device, g);
  Numbers values(static_cast<std::size_t>(rows * 3 * H * D));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  runner.set(in, values);
  runner.forward();
  for (std::int64_t part = 0; part < 3; ++part) {
    Numbers wanted;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t h = 0; h < H; ++h) {
        for (std::int64_t i = 0; i < D; ++i) wanted.push_back(static_cast<double>(row * 3 * H * D + h * 3 * D + part * D + i));
      }
    }
    EXPECT_EQ(runner.value(parts[static_cast<std::size_t>(part)]), wanted) << part;
  }
}

TEST(ExactGelu, is_its_formula_where_it_is_small_and_large) {
  Host device({.threads = 1});
  device::Host::Lane lane(device, "test");
  std::vector<float> x;
  for (float value = -12; value < 12; value += 0x1p-9F) x.push_back(value);
  for (const float value : {0.0F, 1e-30F, -1e-38F, 1e10F, -1e10F, 3e38F, -3e38F}) x.push_back(value);
  std::vector<float> y(x.size()), d(x.size(), 1.0F), dx(x.size());
  lane.submit([&](device::Host::Lane& own) {
    using Kernels = nn::Kernels<Host>;
    Kernels::exact_gelu_forward<float>(own, y.data(), x.data(), std::ssize(x));
    Kernels::exact_gelu_backward<float>(own, dx.data(), d.data(), x.data(), std::ssize(x), false);
  });
  lane.synchronize();
  double furthest = 0, furthest_slope = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    const double below = std::erfc(-at / std::sqrt(2.0)) / 2;
    furthest = std::max(furthest, std::abs(static_cast<double>(y[i]) - at * below) / std::max(1.0, std::abs(at)));
    const double slope = below + at * std::exp(-at * at / 2) / std::sqrt(2 * std::acos(-1.0));
    furthest_slope = std::max(furthest_slope, std::abs(static_cast<double>(dx[i]) - slope));
  }
  EXPECT_LT(furthest, 0x1p-22) << "in units of the larger of 1 and |x|";
  EXPECT_GT(furthest, 0x1p-30) << "fp32 would not be that exact";
  EXPECT_LT(furthest_slope, 0x1p-21);
  EXPECT_TRUE(std::isnan([&] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    float out = 0;
    lane.submit([&](device::Host::Lane& own) { nn::Kernels<Host>::exact_gelu_forward<float>(own, &out, &nan, 1); });
    lane.synchronize();
    return out;
  }()));
}

TEST(BloomOperators, refuse_what_cannot_be_with_the_number) {
  const auto refuses = [](auto op, const graph::TensorSpec& input, const char* text) {
    graph::Graph<Host, double> g(1);
    try {
      g.add("op", op, {g.input("in", input)});
      ADD_FAILURE() << "nothing thrown: " << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  const auto rows = fp64({2, 3, 12});
  refuses(nn::SplitHeads{0}, rows, "its heads is 0");
  refuses(nn::SplitHeads{5}, rows, "(..., 3 H D) of 5 heads");
  refuses(nn::SplitHeads{13}, rows, "(..., 3 H D) of 13 heads");
  refuses(nn::SplitHeads{2}, {{2, 12}, Element::int32}, "rows (..., C) of fp64");
  refuses(nn::Rotary{.head_size = 6, .turned = 3}, rows, "of which 3 columns turn, which must be even");
  refuses(nn::Rotary{.head_size = 6, .turned = 8}, rows, "of which 8 columns turn");
  refuses(nn::Rotary{.head_size = 6, .turned = -2}, rows, "of which -2 columns turn");
  refuses(nn::ExactGelu{}, {{2, 5}, Element::int32}, "ExactGelu");
}

}  // namespace
}  // namespace reef::test
