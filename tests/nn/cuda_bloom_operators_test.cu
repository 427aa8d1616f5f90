// What BLOOM and GPT-NeoX add to the operators, on Cuda: the laws, and each against the host in every precision.

#include <reef/nn/cuda.cuh>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <reef/nn/bloom.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/registry.hpp>

#include "bloom_operator_cases.hpp"
#include "cuda_and_host.hpp"

namespace reef::test {

/// Three heads, which are no power of two, over two tiles of 32 queries, with a window and one head of keys.
struct AlibiTilesCase : AlibiWindowCase {
  static std::vector<InputCase> inputs() { return {{"q", {1, 34, 9}}, {"k", {1, 34, 3}}, {"v", {1, 34, 3}}}; }
  static auto op() { return nn::GroupedAttention{.heads = 3, .kv_heads = 1, .window = 9, .alibi = true}; }
};

using AlibiSubjects = AllOnCuda<AlibiCase, AlibiTilesCase, AlibiDropoutCase>;
using NeoxSubjects = AllOnCuda<PartialRotaryCase, ExactGeluCase, SplitHeadsCase>;
INSTANTIATE_TYPED_TEST_SUITE_P(Alibi, OperatorLaws, AlibiSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Neox, OperatorLaws, NeoxSubjects);

namespace {

template <class T>
class BloomOnCuda : public CudaAndHost<T> {};

using Elements = ::testing::Types<float, double, Bfloat16>;
TYPED_TEST_SUITE(BloomOnCuda, Elements);

TYPED_TEST(BloomOnCuda, alibi_is_the_hosts_for_any_groups_head_size_and_window) {
  struct Heads {
    std::int64_t H, K, D;
  };
  for (const auto& [H, K, D] : {Heads{6, 6, 5}, {4, 2, 16}, {3, 1, 65}, {1, 1, 128}}) {
    constexpr std::int64_t B = 2, T_ = 131;
    for (const std::int64_t window : {0, 17, 130}) {
      for (const float rate : {0.0F, 0.3F}) {
        if (window != 0 && (D > 16 || rate > 0.0F)) continue;
        nn::GroupedAttention op{.heads = H, .kv_heads = K, .window = window, .dropout = rate, .alibi = true};
        this->agree("H " + std::to_string(H) + " K " + std::to_string(K) + " D " + std::to_string(D) + " window " +
                        std::to_string(window) + " rate " + std::to_string(rate),
                    op, {{"q", {B, T_, H * D}}, {"k", {B, T_, K * D}}, {"v", {B, T_, K * D}}}, 256);
      }
    }
  }
}

TYPED_TEST(BloomOnCuda, gelu_by_erf_is_the_hosts) {
  for (const std::int64_t n : {1, 63, 9001}) this->agree("n " + std::to_string(n), nn::ExactGelu{}, {{"in", {n}}}, 16);
}

TYPED_TEST(BloomOnCuda, fused_heads_are_the_hosts_packed_or_not) {
  for (const auto& [R, H, D] : {std::array<std::int64_t, 3>{1, 1, 1}, {7, 3, 5}, {33, 2, 64}, {200, 1, 12}}) {
    this->agree("R " + std::to_string(R) + " D " + std::to_string(D), nn::SplitHeads{H}, {{"in", {R, 3 * H * D}}}, 0);
  }
}

/// More than a tile of everything, and none of them full; three heads, whose slopes are of two sequences.
nn::BloomConfig small_bloom() {
  return {.layers = 2, .heads = 3, .channels = 21, .vocabulary = 131, .context = 75, .batch = 2, .sequence = 70};
}

/// Heads of ten columns, of which four are turned.
nn::GptNeoxConfig small_neox(bool parallel) {
  nn::GptNeoxConfig config{.layers = 2, .heads = 2, .channels = 20, .hidden = 37, .vocabulary = 131, .context = 75};
  config.batch = 2;
  config.sequence = 70;
  config.turned = 4;
  config.parallel = config.exact_gelu = config.attention_bias = parallel;
  config.tied = !parallel;
  return config;
}

TYPED_TEST(BloomOnCuda, models_have_the_hosts_loss_and_gradients) {
  using T = TypeParam;
  const auto agree = [](const graph::Graph<Host, T>& on_host, const graph::Graph<Cuda, T>& on_cuda) {
    Host host({.threads = 2});
    Cuda cuda;
    GraphRunner<Host, T> reference(host, on_host);
    GraphRunner<Cuda, T> runner(cuda, on_cuda);
    const auto wanted = run_once(reference, Point<T>::make(on_host.dag(), 131));
    const auto got = run_once(runner, Point<T>::make(on_cuda.dag(), 131));
    ASSERT_EQ(got.size(), wanted.size());
    // Of bf16 every activation on the way is rounded.
    const double allowed = std::is_same_v<T, Bfloat16> ? 16 * 0x1p-8 : bound<T>(4096);
    for (const auto& [name, values] : got) EXPECT_LE(relative_error(values, wanted.at(name)), allowed) << name;
  };
  agree(nn::bloom<Host, T>(small_bloom(), 2), nn::bloom<Cuda, T>(small_bloom(), 1));
  for (const bool parallel : {false, true})
    agree(nn::gpt_neox<Host, T>(small_neox(parallel), 2), nn::gpt_neox<Cuda, T>(small_neox(parallel), 1));
}

class CudaBloom : public CudaAndHost<float> {};

TEST_F(CudaBloom, gelu_by_erf_is_its_formula_where_it_is_small_and_large) {
  std::vector<float> x;
  for (float value = -12; value < 12; value += 0x1p-6F) x.push_back(value);
  for (const float value : {0.0F, 1e-30F, -1e-38F, 1e10F, -1e10F, 3e38F, -3e38F}) x.push_back(value);
  const auto finite = x.size();
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  Cuda device;
  graph::Graph<Cuda, float> g(1);
  const int in = g.input("in", {{std::ssize(x)}, Element::float32}, true);
  const int out = g.add("op", nn::ExactGelu{}, {in})[0];
  GraphRunner<Cuda, float> runner(device, g);
  runner.set(in, x);
  runner.forward();
  runner.set_gradient(out, std::vector<float>(x.size(), 1.0F));
  runner.backward();
  const std::vector<float> y = runner.value(out);
  const std::vector<float> slopes = runner.gradient(in);
  for (std::size_t i = 0; i < finite; ++i) {
    const double at = x[i];
    const double below = std::erfc(-at / std::sqrt(2.0)) / 2;
    const double slope = below + at * std::exp(-at * at / 2) / std::sqrt(2 * std::acos(-1.0));
    EXPECT_NEAR(y[i], at * below, 0x1p-22 * std::max(1.0, std::abs(at))) << at;
    EXPECT_NEAR(slopes[i], slope, 0x1p-21) << at;
  }
  EXPECT_TRUE(std::isnan(y.back()));
  EXPECT_TRUE(std::isnan(slopes.back()));
}

TEST_F(CudaBloom, has_its_operators_in_the_registry) {
  const auto registry = nn::registry<Cuda, float>();
  for (const char* const kind : {"ExactGelu", "SplitHeads"}) EXPECT_EQ(registry.kind(kind, "here").name, kind);
}

}  // namespace
}  // namespace reef::test
