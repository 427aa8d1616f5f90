#include <reef/nn/llama.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/host.hpp>

#include "../laws/graph_runner.hpp"

namespace reef::test {
namespace llamas {

using device::Host;

/// All that the fields can say at once, in three layers of which the last two have a window.
nn::LlamaConfig everything() {
  nn::LlamaConfig config{.layers = 3,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_size = 4,
                         .channels = 6,
                         .hidden = 5,
                         .vocabulary = 7,
                         .context = 9};
  config.batch = 2;
  config.sequence = 5;
  config.rotary = {100, 2, 6, 1, 4};
  config.window = 2;
  config.window_from = 1;
  config.query_bias = config.output_bias = config.mlp_bias = config.norm_heads = true;
  return config;
}

TEST(Llama, its_gradients_equal_finite_differences) {
  Host device({.threads = 2});
  for (const bool tied : {false, true}) {
    nn::LlamaConfig config = everything();
    config.tied = tied;
    const auto g = nn::llama<Host, double>(config, 2);
    const auto [error, whose] = gradient_error(device, g, 7);
    EXPECT_LT(error, 1e-7) << "the gradient of " << whose;
    EXPECT_NE(whose, "none");
  }
}

TEST(Llama, a_cut_at_any_node_changes_no_bit_and_no_number_of_threads_does) {
  Host device({.threads = 2});
  const auto g = nn::llama<Host, float>(everything(), 2);
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

TEST(Llama, has_hugging_faces_names_and_between_layers_one_tensor_crosses) {
  const auto g = nn::llama<Host, float>({.layers = 2,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .channels = 8,
                                         .hidden = 12,
                                         .vocabulary = 11,
                                         .context = 6},
                                        1);
  std::set<std::string> names;
  std::int64_t elements = 0;
  for (const graph::Parameter& parameter : g.dag().parameters) {
    names.insert(parameter.name);
    elements += parameter.spec.shape.size();
    EXPECT_EQ(parameter.decay, parameter.spec.shape.rank() == 2) << parameter.name;
  }
  for (const char* const name :
       {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
        "model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.o_proj.weight",
        "model.layers.1.post_attention_layernorm.weight", "model.layers.1.mlp.gate_proj.weight",
        "model.layers.0.mlp.down_proj.weight", "model.norm.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_FALSE(names.contains("lm_head.weight")) << "it is tied";
  EXPECT_EQ(elements, 11 * 8 + 8 + 2 * (2 * 8 + 2 * 8 * 8 + 2 * 4 * 8 + 3 * 12 * 8));
}

TEST(Llama, refuses_a_configuration_that_cannot_be) {
  const auto refuses = [](auto change, const char* text) {
    nn::LlamaConfig config = everything();
    change(config);
    try {
      config.validate();
      ADD_FAILURE() << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  };
  using Config = nn::LlamaConfig;
  everything().validate();
  refuses([](Config& c) { c.layers = 0; }, "layers is 0");
  refuses([](Config& c) { c.heads = 0; }, "heads is 0");
  refuses([](Config& c) { c.kv_heads = 3; }, "kv_heads is 3");
  refuses([](Config& c) { c.kv_heads = -1; }, "kv_heads is -1");
  refuses([](Config& c) { c.head_size = 3; }, "head_size is 3");
  refuses([](Config& c) { c.head_size = 0; }, "channels is 6");
  refuses([](Config& c) { c.hidden = 0; }, "hidden is 0");
  refuses([](Config& c) { c.vocabulary = 0; }, "vocabulary is 0");
  refuses([](Config& c) { c.context = 0; }, "context is 0");
  refuses([](Config& c) { c.sequence = 10; }, "sequence is 10");
  refuses([](Config& c) { c.batch = 0; }, "batch is 0");
  refuses([](Config& c) { c.epsilon = -1; }, "epsilon is -1");
  refuses([](Config& c) { c.rotary.theta = 0; }, "rotary.theta is 0");
  refuses([](Config& c) { c.rotary.high = 1; }, "rotary.high is 1");
  refuses([](Config& c) { c.window = -1; }, "window is -1");
  refuses([](Config& c) { c.window_from = -1; }, "window_from is -1");
}

}  // namespace llamas
}  // namespace reef::test
