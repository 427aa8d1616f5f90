// The operators that models such as Llama add, on Cuda: the laws, and each against the host in every precision.

#include <reef/nn/cuda.cuh>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/mean_squared_error.hpp>
#include <reef/nn/registry.hpp>
#include <reef/nn/relu.hpp>
#include <reef/nn/rms_norm.hpp>
#include <reef/nn/rotary.hpp>
#include <reef/nn/silu.hpp>
#include <reef/nn/swiglu.hpp>
#include <reef/nn/token_embedding.hpp>

#include "cuda_and_host.hpp"
#include "llama_operator_cases.hpp"

namespace reef::test {

using device::Cuda;
using device::Host;

using NormSubjects = AllOnCuda<RmsNormCase, RmsNormOfHeadsCase>;
using RotarySubjects = AllOnCuda<RotaryCase, ScaledRotaryCase>;
using GatedSubjects = AllOnCuda<SiluCase, ReluCase, SwiGluCase>;
using GroupedSubjects =
    AllOnCuda<GroupedAttentionCase, WindowAttentionCase, WindowAttentionWithDropoutCase>;
using OtherSubjects = AllOnCuda<TokenEmbeddingCase, MeanSquaredErrorCase>;

INSTANTIATE_TYPED_TEST_SUITE_P(RmsNorm, OperatorLaws, NormSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Rotary, OperatorLaws, RotarySubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Gated, OperatorLaws, GatedSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(GroupedAttention, OperatorLaws, GroupedSubjects);
INSTANTIATE_TYPED_TEST_SUITE_P(Other, OperatorLaws, OtherSubjects);

namespace {

template <class T>
class LlamaOnCuda : public CudaAndHost<T> {};

using Elements = ::testing::Types<float, double, Bfloat16>;
TYPED_TEST_SUITE(LlamaOnCuda, Elements);

TYPED_TEST(LlamaOnCuda, rms_norm_is_the_hosts_of_rows_and_heads_packed_or_not) {
  // Rows by 16 bytes, and one by one; more rows than one part, and more columns than one tile.
  for (const auto& [R, C, width] : {std::array<std::int64_t, 3>{1, 1, 0},
                                    {70, 33, 0},
                                    {300, 64, 16},
                                    {5, 1032, 0},
                                    {130, 30, 10}}) {
    this->agree("R " + std::to_string(R) + " C " + std::to_string(C), nn::RmsNorm{1e-5, width},
                {{"in", {R, C}}}, 64);
  }
}

TYPED_TEST(LlamaOnCuda, rotary_is_the_hosts_whatever_its_frequencies_and_head_size) {
  for (const std::int64_t D :
       {2, 6, 64, 520}) {  // the last has more frequencies than a kernel is told at once
    const std::vector<InputCase> inputs = {{"in", {2, 40, 2 * D}}};
    const std::string what = "D " + std::to_string(D);
    this->agree(what, nn::Rotary{.head_size = D}, inputs, 64);
    this->agree(what + " stretched", nn::Rotary{.head_size = D, .theta = 500, .factor = 4}, inputs,
                64);
    this->agree(what + " of Llama 3",
                nn::Rotary{.head_size = D, .theta = 500, .factor = 8, .original = 64}, inputs, 64);
    if (D > 2) this->agree(what + " in part", nn::Rotary{.head_size = D, .turned = D / 3 * 2}, inputs, 64);
  }
  this->agree("an odd head", nn::Rotary{.head_size = 9, .turned = 4}, {{"in", {2, 40, 18}}}, 64);
}

TYPED_TEST(LlamaOnCuda, activations_and_squared_errors_are_the_hosts_over_several_parts) {
  for (const std::int64_t n : {1, 63, 9001}) {
    const std::string what = "n " + std::to_string(n);
    this->agree(what + " silu", nn::Silu{}, {{"in", {n}}}, 16);
    this->agree(what + " relu", nn::Relu{}, {{"in", {n}}}, 2);
    this->agree(what + " swiglu", nn::SwiGlu{}, {{"gate", {n}}, {"up", {n}}}, 16);
    this->agree(what + " squares", nn::MeanSquaredError{}, {{"a", {n}}, {"b", {n}}}, 256);
  }
}

TYPED_TEST(LlamaOnCuda, token_embedding_is_the_hosts) {
  for (const auto& [n, C, V] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {150, 33, 6}, {40, 1030, 50}}) {
    this->agree("C " + std::to_string(C), nn::TokenEmbedding{V, C}, {{"tokens", {n, 2}, true}}, 64,
                static_cast<std::int32_t>(V));
  }
}

TYPED_TEST(LlamaOnCuda, grouped_attention_is_the_hosts_for_any_groups_head_size_and_window) {
  struct Heads {
    std::int64_t H, K, D;
  };
  for (const auto& [H, K, D] : {Heads{3, 3, 5}, {4, 2, 16}, {3, 1, 65}, {2, 1, 128}}) {
    constexpr std::int64_t B = 2, T_ = 131;
    for (const std::int64_t window : {0, 1, 17, 64, 65, 130, 1000}) {
      if (D > 16 && window != 0 && window != 17) continue;
      for (const float rate : {0.0F, 0.3F}) {
        if (rate > 0.0F && window != 0 && window != 17) continue;
        this->agree("H " + std::to_string(H) + " K " + std::to_string(K) + " D " +
                        std::to_string(D) + " window " + std::to_string(window) + " rate " +
                        std::to_string(rate),
                    nn::GroupedAttention{H, K, window, rate},
                    {{"q", {B, T_, H * D}}, {"k", {B, T_, K * D}}, {"v", {B, T_, K * D}}}, 256);
      }
    }
  }
}

/// All that the fields of a Llama can say at once, more than a tile of everything, and none of them full.
nn::LlamaConfig everything() {
  nn::LlamaConfig config{.layers = 3,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_size = 6,
                         .channels = 22,
                         .hidden = 37,
                         .vocabulary = 131,
                         .context = 75};
  config.batch = 2;
  config.sequence = 70;
  config.rotary = {100, 2, 16, 1, 4};
  config.window = 9;
  config.window_from = 1;
  config.query_bias = config.output_bias = config.mlp_bias = config.norm_heads = true;
  return config;
}

TYPED_TEST(LlamaOnCuda, a_model_has_the_hosts_loss_and_gradients) {
  using T = TypeParam;
  for (const bool tied : {false, true}) {
    nn::LlamaConfig config = everything();
    config.tied = tied;
    const auto on_host = nn::llama<Host, T>(config, 2);
    const auto on_cuda = nn::llama<Cuda, T>(config, 1);
    Host host({.threads = 2});
    Cuda cuda;
    GraphRunner<Host, T> reference(host, on_host);
    GraphRunner<Cuda, T> runner(cuda, on_cuda);
    const auto wanted = run_once(reference, Point<T>::make(on_host.dag(), 131));
    const auto got = run_once(runner, Point<T>::make(on_cuda.dag(), 131));
    ASSERT_EQ(got.size(), wanted.size());
    // Of bf16 every activation on the way is rounded.
    const double allowed = std::is_same_v<T, Bfloat16> ? 16 * 0x1p-8 : bound<T>(4096);
    for (const auto& [name, values] : got) {
      EXPECT_LE(relative_error(values, wanted.at(name)), allowed) << name;
    }
  }
}

class CudaLlama : public LlamaOnCuda<float> {};

TEST_F(CudaLlama, cuts_and_runs_change_no_bit) {
  Cuda device;
  const auto g = nn::llama<Cuda, float>(everything());
  const Point<float> point = Point<float>::make(g.dag(), 131);
  GraphRunner<Cuda, float> whole(device, g);
  const auto wanted = run_once(whole, point);
  EXPECT_EQ(run_once(whole, point), wanted);
  std::vector<int> everywhere;
  for (int cut = 1; cut < g.dag().node_count(); ++cut) everywhere.push_back(cut);
  GraphRunner<Cuda, float> apart(device, g, everywhere);
  EXPECT_EQ(run_once(apart, point), wanted);
}

TEST_F(CudaLlama, its_gradients_equal_finite_differences) {
  Cuda device;
  nn::LlamaConfig config{.layers = 1,
                         .heads = 2,
                         .kv_heads = 1,
                         .head_size = 2,
                         .channels = 3,
                         .hidden = 4,
                         .vocabulary = 5,
                         .context = 4};
  config.window = 2;
  config.norm_heads = true;
  const auto g = nn::llama<Cuda, double>(config);
  const auto [error, whose] = gradient_error(device, g, 5);
  EXPECT_LT(error, 1e-7) << "the gradient of " << whose;
  EXPECT_NE(whose, "none");
}

TEST_F(CudaLlama, attention_of_as_many_heads_of_keys_has_the_bits_of_causal_attention) {
  constexpr std::int64_t T_ = 70, C = 12;
  Cuda device;
  graph::Graph<Cuda, float> apart(1);
  graph::Graph<Cuda, float> together(1);
  std::vector<int> parts;
  for (const char* const name : {"q", "k", "v"})
    parts.push_back(apart.input(name, {{1, T_, C}, Element::float32}, true));
  const int of_parts = apart.add("op", nn::GroupedAttention{3, 3}, parts)[0];
  const int qkv = together.input("qkv", {{1, T_, 3 * C}, Element::float32}, true);
  const int whole = together.add("op", nn::CausalAttention{3}, {qkv})[0];
  GraphRunner<Cuda, float> one(device, apart);
  GraphRunner<Cuda, float> other(device, together);
  std::vector<float> side_by_side(T_ * 3 * C);
  for (std::size_t i = 0; i < side_by_side.size(); ++i)
    side_by_side[i] = static_cast<float>(normal(DrawKey{7}, i));
  for (std::size_t part = 0; part < 3; ++part) {
    std::vector<float> values;
    for (std::size_t t = 0; t < T_; ++t) {
      const auto row = side_by_side.begin() + static_cast<std::ptrdiff_t>((3 * t + part) * C);
      values.insert(values.end(), row, row + C);
    }
    one.set(parts[part], values);
  }
  other.set(qkv, side_by_side);
  one.forward();
  other.forward();
  EXPECT_EQ(one.value(of_parts), other.value(whole));
}

TEST_F(CudaLlama, has_its_operators_in_the_registry) {
  const auto registry = nn::registry<Cuda, float>();
  for (const char* const kind : {"GroupedAttention", "MeanSquaredError", "Relu", "RmsNorm",
                                 "Rotary", "Silu", "SwiGlu", "TokenEmbedding"}) {
    EXPECT_EQ(registry.kind(kind, "here").name, kind);
  }
}

TEST_F(CudaLlama, a_head_that_no_kernel_takes_is_refused) {
  Cuda device;
  Cuda::Lane lane(device, "compute");
  for (const auto& [H, K, D] : {std::array<std::int64_t, 3>{2, 1, 129}, {3, 2, 8}}) {
    lane.submit([&](Cuda::Lane& own) {
      float* const none = nullptr;
      nn::Kernels<Cuda>::grouped_attention_forward<float>(own, none, none, none, none, none, 1, 4,
                                                          H, K, D, 0, false, nullptr, 0.0F, {});
    });
    EXPECT_THROW(lane.synchronize(), ShapeError) << D;
  }
}

TEST_F(CudaLlama, a_token_outside_the_vocabulary_gives_nans) {
  Cuda device;
  graph::Graph<Cuda, float> g(1);
  const int tokens = g.input("tokens", {{1, 3}, Element::int32});
  const int out = g.add("op", nn::TokenEmbedding{2, 1}, {tokens})[0];
  GraphRunner<Cuda, float> runner(device, g);
  runner.set(tokens, std::vector<std::int32_t>{1, 2, -1});
  runner.set_parameter(0, std::vector<float>{10, 20});
  runner.forward();
  const auto values = runner.value(out);
  EXPECT_EQ(values[0], 20);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_TRUE(std::isnan(values[2]));
}

}  // namespace
}  // namespace reef::test
