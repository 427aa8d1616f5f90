// The graphs of BLOOM and GPT-NeoX.

#include <reef/nn/bloom.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/host.hpp>

#include "../laws/graph_runner.hpp"

namespace reef::test {
namespace bloom_graphs {

using device::Host;

/// Three heads: slopes of two sequences.
nn::BloomConfig small_bloom(bool tied = true) {
  return {.layers = 2, .heads = 3, .channels = 6, .vocabulary = 7, .context = 9, .batch = 2, .sequence = 5, .epsilon = 1e-5, .tied = tied};
}

/// Heads of six columns, of which four are turned.
nn::GptNeoxConfig small_neox(bool parallel = true) {
  nn::GptNeoxConfig config{.layers = 2, .heads = 2, .channels = 12, .hidden = 5, .vocabulary = 7, .context = 9};
  config.batch = 2;
  config.sequence = 5;
  config.rotary = {100, 2, 6, 1, 4};
  config.turned = 4;
  config.parallel = config.exact_gelu = config.attention_bias = parallel;
  config.tied = !parallel;
  return config;
}

template <real T>
std::vector<graph::Graph<Host, T>> models() {
  return {nn::bloom<Host, T>(small_bloom(), 2), nn::bloom<Host, T>(small_bloom(false), 2), nn::gpt_neox<Host, T>(small_neox(), 2),
          nn::gpt_neox<Host, T>(small_neox(false), 2)};
}

TEST(Bloom, and_neox_have_gradients_that_equal_finite_differences) {
  Host device({.threads = 2});
  for (const auto& g : models<double>()) {
    const auto [error, whose] = gradient_error(device, g, 7);
    EXPECT_LT(error, 1e-7) << "the gradient of " << whose;
    EXPECT_NE(whose, "none");
  }
}

TEST(Bloom, and_neox_keep_their_bits_wherever_they_are_cut_and_on_any_threads) {
  Host device({.threads = 2});
  for (const auto& g : models<float>()) {
    const Point<float> point = Point<float>::make(g.dag(), 7);
    GraphRunner<Host, float> whole(device, g);
    const auto wanted = run_once(whole, point);
    std::vector<int> everywhere;
    for (int cut = 1; cut < g.dag().node_count(); ++cut) {
      everywhere.push_back(cut);
      GraphRunner<Host, float> two(device, g, {cut});
      EXPECT_EQ(run_once(two, point), wanted) << "cut before " << g.dag().node_at(cut).name;
    }
    for (const auto halves : {graph::Halves::no, graph::Halves::yes}) {
      GraphRunner<Host, float> apart(device, g, everywhere, -1, halves);
      if (halves == graph::Halves::no) apart.recompute();
      EXPECT_EQ(run_once(apart, point), wanted);
    }
    Host other({.threads = 1});
    GraphRunner<Host, float> alone(other, g);
    EXPECT_EQ(run_once(alone, point), wanted);
  }
}

std::set<std::string> names_of(const graph::Dag& dag) {
  std::set<std::string> names;
  for (const graph::Parameter& parameter : dag.parameters) {
    names.insert(parameter.name);
    EXPECT_EQ(parameter.decay, parameter.spec.shape.rank() == 2) << parameter.name;
  }
  return names;
}

TEST(Bloom, has_hugging_faces_names) {
  const auto names = names_of(nn::bloom<Host, float>(small_bloom(), 1).dag());
  EXPECT_EQ(names.size(), 1 + 2 + 2 * 12 + 2U);
  for (const char* const name :
       {"transformer.word_embeddings.weight", "transformer.word_embeddings_layernorm.bias", "transformer.h.0.input_layernorm.weight",
        "transformer.h.1.self_attention.query_key_value.weight", "transformer.h.1.self_attention.query_key_value.bias",
        "transformer.h.1.self_attention.dense.bias", "transformer.h.0.post_attention_layernorm.weight",
        "transformer.h.0.mlp.dense_h_to_4h.weight", "transformer.h.1.mlp.dense_4h_to_h.bias", "transformer.ln_f.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_TRUE(names_of(nn::bloom<Host, float>(small_bloom(false), 1).dag()).contains("lm_head.weight"));
}

TEST(GptNeox, has_hugging_faces_names_and_biases_where_it_is_told) {
  const auto names = names_of(nn::gpt_neox<Host, float>(small_neox(), 1).dag());
  EXPECT_EQ(names.size(), 1 + 2 * 12 + 2 + 1U);
  for (const char* const name :
       {"gpt_neox.embed_in.weight", "gpt_neox.layers.0.input_layernorm.bias", "gpt_neox.layers.1.attention.query_key_value.weight",
        "gpt_neox.layers.1.attention.query_key_value.bias", "gpt_neox.layers.1.attention.dense.bias",
        "gpt_neox.layers.0.post_attention_layernorm.weight", "gpt_neox.layers.0.mlp.dense_h_to_4h.bias",
        "gpt_neox.layers.1.mlp.dense_4h_to_h.weight", "gpt_neox.final_layer_norm.bias", "embed_out.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  const auto without = names_of(nn::gpt_neox<Host, float>(small_neox(false), 1).dag());
  EXPECT_EQ(without.size(), 1 + 2 * 10 + 2U) << "no biases at the attention, and a tied head";
}

template <class Config>
void refuses(Config config, const auto& change, const char* text) {
  change(config);
  try {
    config.validate();
    ADD_FAILURE() << text;
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(text));
  }
}

TEST(Bloom, refuses_a_configuration_that_cannot_be_but_no_sequence_beyond_its_context) {
  using Config = nn::BloomConfig;
  const auto of = [](const auto& change, const char* text) { refuses(small_bloom(), change, text); };
  small_bloom().validate();
  of([](Config& c) { c.layers = 0; }, "layers is 0");
  of([](Config& c) { c.heads = 4; }, "channels is 6");
  of([](Config& c) { c.heads = 0; }, "heads is 0");
  of([](Config& c) { c.channels = 0; }, "channels is 0");
  of([](Config& c) { c.vocabulary = 0; }, "vocabulary is 0");
  of([](Config& c) { c.context = 0; }, "context is 0");
  of([](Config& c) { c.sequence = (1 << 24) + 1; }, "sequence is 16777217");
  of([](Config& c) { c.batch = 0; }, "batch is 0");
  of([](Config& c) { c.epsilon = -1; }, "epsilon is -1");
  Config longer = small_bloom();
  longer.sequence = 11;
  longer.validate();
}

TEST(GptNeox, refuses_a_configuration_that_cannot_be) {
  using Config = nn::GptNeoxConfig;
  const auto of = [](const auto& change, const char* text) { refuses(small_neox(), change, text); };
  small_neox().validate();
  of([](Config& c) { c.layers = 0; }, "layers is 0");
  of([](Config& c) { c.heads = 5; }, "channels is 12");
  of([](Config& c) { c.hidden = 0; }, "hidden is 0");
  of([](Config& c) { c.sequence = 10; }, "sequence is 10");
  of([](Config& c) { c.turned = 3; }, "turned is 3");
  of([](Config& c) { c.turned = 8; }, "turned is 8");
  of([](Config& c) { c.turned = -2; }, "turned is -2");
  of([](Config& c) { c.turned = 0, c.heads = 4; }, "turned is 3");
  of([](Config& c) { c.rotary.theta = 0; }, "rotary.theta is 0");
}

}  // namespace bloom_graphs
}  // namespace reef::test
