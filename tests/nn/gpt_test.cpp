#include <reef/nn/gpt.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/host.hpp>

#include "../laws/graph_runner.hpp"
#include "../support/gpt_config.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using graph::Segment;

TEST(Gpt, the_smallest_gpt_2_has_124439808_parameters_with_gpt_2s_names) {
  const auto g = nn::gpt<Host, float>({}, 1);
  const graph::Dag& dag = g.dag();
  EXPECT_EQ(dag.parameter_count(), 124439808);
  EXPECT_EQ(dag.parameters.size(), 148U);
  EXPECT_EQ(dag.uses.size(), 149U) << "the head shares wte";
  const auto shape = [&](const std::string& name) {
    return dag.parameter_at(dag.parameter(name)).spec.shape;
  };
  EXPECT_EQ(shape("transformer.wte.weight"), Shape({50257, 768}));
  EXPECT_EQ(shape("transformer.wpe.weight"), Shape({1024, 768}));
  for (const std::string h : {"transformer.h.0.", "transformer.h.11."}) {
    EXPECT_EQ(shape(h + "ln_1.weight"), Shape({768}));
    EXPECT_EQ(shape(h + "ln_1.bias"), Shape({768}));
    EXPECT_EQ(shape(h + "attn.c_attn.weight"), Shape({768, 2304}));
    EXPECT_EQ(shape(h + "attn.c_attn.bias"), Shape({2304}));
    EXPECT_EQ(shape(h + "attn.c_proj.weight"), Shape({768, 768}));
    EXPECT_EQ(shape(h + "attn.c_proj.bias"), Shape({768}));
    EXPECT_EQ(shape(h + "ln_2.weight"), Shape({768}));
    EXPECT_EQ(shape(h + "ln_2.bias"), Shape({768}));
    EXPECT_EQ(shape(h + "mlp.c_fc.weight"), Shape({768, 3072}));
    EXPECT_EQ(shape(h + "mlp.c_fc.bias"), Shape({3072}));
    EXPECT_EQ(shape(h + "mlp.c_proj.weight"), Shape({3072, 768}));
    EXPECT_EQ(shape(h + "mlp.c_proj.bias"), Shape({768}));
  }
  EXPECT_EQ(shape("transformer.ln_f.weight"), Shape({768}));
  EXPECT_EQ(shape("transformer.ln_f.bias"), Shape({768}));
  EXPECT_EQ(dag.tensor_at(dag.tensor("logits")).spec.shape, Shape({1, 1024, 50257}));
}

TEST(Gpt, begins_as_gpt_2_does_and_decays_matrices_alone) {
  const auto g = nn::gpt<Host, float>({}, 1);
  const graph::Dag& dag = g.dag();
  const auto init = [&](const std::string& name) {
    return dag.parameter_at(dag.parameter("transformer." + name)).init;
  };
  EXPECT_EQ(init("wte.weight"), graph::Init::normal(0.02));
  EXPECT_EQ(init("h.3.attn.c_attn.weight"), graph::Init::normal(0.02));
  EXPECT_EQ(init("h.3.attn.c_proj.weight"), graph::Init::normal(0.02 / std::sqrt(24.0)));
  EXPECT_EQ(init("h.3.mlp.c_proj.weight"), graph::Init::normal(0.02 / std::sqrt(24.0)));
  EXPECT_EQ(init("h.3.mlp.c_fc.bias"), graph::Init::zeros());
  EXPECT_EQ(init("ln_f.weight"), graph::Init::ones());
  for (const graph::Parameter& parameter : dag.parameters) {
    EXPECT_EQ(parameter.decay, parameter.spec.shape.rank() == 2) << parameter.name;
  }
}

TEST(Gpt, its_gradients_equal_finite_differences) {
  Host device({.threads = 2});
  for (const float dropout : {0.0F, 0.25F}) {
    nn::GptConfig config = tiny_config();
    config.dropout = dropout;
    const auto g = nn::gpt<Host, double>(config, 2);
    const auto [error, whose] = gradient_error(device, g, 7, {21, 4, 0, 0});
    EXPECT_LT(error, 1e-7) << "the gradient of " << whose << " with dropout " << dropout;
    EXPECT_NE(whose, "none");
  }
}

TEST(Gpt, in_fp32_it_agrees_with_fp64) {
  Host device({.threads = 2});
  const auto narrow = nn::gpt<Host, float>(tiny_config(), 2);
  const auto wide = nn::gpt<Host, double>(tiny_config(), 2);
  GraphRunner<Host, float> runner(device, narrow);
  GraphRunner<Host, double> reference(device, wide);
  const auto outcome = run_once(runner, Point<float>::make(narrow.dag(), 7));
  const auto wanted = run_once(reference, Point<double>::make(wide.dag(), 7));
  for (const auto& [name, values] : outcome) {
    EXPECT_LT(relative_error(values, wanted.at(name)), 512 * 0x1p-24) << name;
  }
}

TEST(Gpt, a_cut_at_any_node_changes_no_bit) {
  Host device({.threads = 2});
  nn::GptConfig config = tiny_config();
  config.dropout = 0.1F;
  const auto g = nn::gpt<Host, float>(config, 2);
  const Point<float> point = Point<float>::make(g.dag(), 7);
  const DrawKey key{5, 12, 0, 0};
  GraphRunner<Host, float> whole(device, g);
  const auto wanted = run_once(whole, point, key);
  EXPECT_EQ(run_once(whole, point, key), wanted) << "dropout draws something else again";
  std::vector<int> everywhere;
  for (int cut = 1; cut < g.dag().node_count(); ++cut) {
    everywhere.push_back(cut);
    GraphRunner<Host, float> two(device, g, {cut});
    EXPECT_EQ(run_once(two, point, key), wanted) << "cut before " << g.dag().node_at(cut).name;
  }
  for (const bool recomputes : {false, true}) {
    GraphRunner<Host, float> apart(device, g, everywhere);
    GraphRunner<Host, float> two(device, g, {g.dag().node_count() / 2});
    if (recomputes) {
      apart.recompute();
      two.recompute();
    }
    EXPECT_EQ(run_once(apart, point, key), wanted);
    EXPECT_EQ(run_once(two, point, key), wanted);
  }
}

TEST(Gpt, its_bits_do_not_depend_on_the_number_of_threads) {
  nn::GptConfig config = tiny_config();
  config.batch = 3;
  config.context = 70;
  config.sequence = 70;
  config.channels = 48;
  config.dropout = 0.1F;
  std::vector<Outcome<float>> outcomes;
  for (const int threads : {1, 2, 3}) {
    Host device({.threads = threads});
    const auto g = nn::gpt<Host, float>(config, threads);
    GraphRunner<Host, float> runner(device, g);
    outcomes.push_back(run_once(runner, Point<float>::make(g.dag(), 7)));
  }
  EXPECT_EQ(outcomes[1], outcomes[0]);
  EXPECT_EQ(outcomes[2], outcomes[0]);
}

TEST(Gpt, its_logits_begin_as_small_as_gpt2_says_and_its_loss_is_that_of_them) {
  Host device({.threads = 2});
  nn::GptConfig config = tiny_config();
  config.channels = 32;
  config.vocabulary = 256;
  config.context = 16;
  config.sequence = 0;
  const auto g = nn::gpt<Host, float>(config, 2);
  const graph::Dag& dag = g.dag();
  const int logits = dag.tensor("logits");
  GraphRunner<Host, float> runner(device, g, {dag.tensor_at(logits).producer + 1});
  Point<float> point = Point<float>::make(dag, 256);
  for (auto& [id, values] : point.parameters) {
    graph::initialise(dag.parameter_at(id), {1, 0, 0, static_cast<std::uint32_t>(id)},
                      values.data());
  }
  point.apply(runner);
  runner.forward({}, false);
  const std::vector<float> values = runner.value(logits);
  double mean = 0;
  double square = 0;
  for (const float logit : values) {
    mean += logit / static_cast<double>(values.size());
    square += static_cast<double>(logit) * logit / static_cast<double>(values.size());
  }
  // Products of a row of the embedding, deviations of 0.02, and a normalised one of 32 channels.
  const double deviation = 0.02 * std::sqrt(32.0);
  EXPECT_NEAR(mean, 0, 0.1 * deviation);
  EXPECT_NEAR(std::sqrt(square), deviation, 0.3 * deviation) << "logits that are all alike have a loss of log V, too";
  // The mean of log of the sum of exp(logit - logit of the target), of rows that have one.
  const std::vector<std::int32_t>& targets = point.integers.at(dag.tensor("targets"));
  double loss = 0;
  double rows = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    double sum = 0;
    for (std::size_t v = 0; v < 256; ++v) {
      sum += std::exp(static_cast<double>(values[256 * row + v]) - values[256 * row + static_cast<std::size_t>(targets[row])]);
    }
    loss += std::log(sum);
    ++rows;
  }
  ASSERT_GT(rows, 0);
  EXPECT_NEAR(runner.value(dag.loss)[0], loss / rows, 1e-5);
  EXPECT_NEAR(loss / rows, std::log(256.0), 0.05);
}

TEST(Gpt, logits_are_inferred_without_targets_and_equal_those_of_training) {
  Host device({.threads = 2});
  const auto g = nn::gpt<Host, float>(tiny_config(), 2);
  const graph::Dag& dag = g.dag();
  const int logits = dag.tensor("logits");
  const int end = dag.tensor_at(logits).producer + 1;
  const Segment segment = graph::plan_segment_to(dag, logits);
  EXPECT_EQ(segment.boundary_inputs, std::vector<int>{dag.tensor("tokens")});
  EXPECT_EQ(segment.boundary_outputs, std::vector<int>{logits});

  const Point<float> point = Point<float>::make(dag, 7);
  GraphRunner<Host, float> generator(device, g, {}, end);
  point.apply(generator);
  generator.forward({}, false);
  GraphRunner<Host, float> trainer(device, g, {end});
  point.apply(trainer);
  trainer.forward();
  EXPECT_EQ(generator.value(logits), trainer.value(logits));
}

TEST(Gpt, gradients_of_the_residual_stream_share_one_buffer_and_logits_lie_under_theirs) {
  const auto g = nn::gpt<Host, float>(tiny_config(), 1);
  const graph::Dag& dag = g.dag();
  const Segment segment = graph::plan_segment(dag);
  std::set<Bytes> trunk;
  for (std::size_t id = 0; id < dag.tensors.size(); ++id) {
    if (dag.tensors[id].name.find("residual") == std::string::npos) continue;
    EXPECT_EQ(segment.gradient[id].place, graph::Location::Place::workspace);
    trunk.insert(segment.gradient[id].offset);
  }
  EXPECT_EQ(trunk.size(), 1U);
  const auto logits = static_cast<std::size_t>(dag.tensor("logits"));
  EXPECT_EQ(segment.gradient[logits], segment.forward[logits]);
}

TEST(Gpt, between_layers_one_tensor_crosses) {
  const auto g = nn::gpt<Host, float>(tiny_config(), 1);
  const graph::Dag& dag = g.dag();
  const int cut = dag.node("transformer.h.1.ln_1");
  const Segment front = graph::plan_segment(dag, 0, cut);
  const Segment back = graph::plan_segment(dag, cut, dag.node_count());
  const int crossing = dag.tensor("transformer.h.0.mlp.residual");
  EXPECT_EQ(front.boundary_outputs, std::vector<int>{crossing});
  EXPECT_EQ(front.output_gradients, std::vector<int>{crossing});
  EXPECT_EQ(back.boundary_inputs, (std::vector<int>{dag.tensor("targets"), crossing}));
  EXPECT_EQ(back.input_gradients, std::vector<int>{crossing});
  EXPECT_EQ(back.input_gradient_accumulates, std::vector<bool>{false});
}

TEST(Gpt, a_padded_vocabulary_changes_the_rows_of_wte_alone) {
  nn::GptConfig config = tiny_config();
  const auto plain = nn::gpt<Host, float>(config, 1);
  config.padded_vocabulary = 64;
  const auto padded = nn::gpt<Host, float>(config, 1);
  EXPECT_EQ(padded.dag().parameter_count() - plain.dag().parameter_count(), (64 - 7) * 6);
  EXPECT_EQ(padded.dag().tensor_at(padded.dag().tensor("logits")).spec.shape, Shape({3, 4, 64}));
}

TEST(Gpt, refuses_a_configuration_that_cannot_be) {
  const auto refuses = [](auto change) {
    nn::GptConfig config = tiny_config();
    change(config);
    EXPECT_THROW((nn::gpt<Host, float>(config, 1)), OptionError);
  };
  refuses([](nn::GptConfig& c) { c.heads = 4; });
  refuses([](nn::GptConfig& c) { c.layers = 0; });
  refuses([](nn::GptConfig& c) { c.sequence = 6; });
  refuses([](nn::GptConfig& c) { c.padded_vocabulary = 3; });
  refuses([](nn::GptConfig& c) { c.dropout = 1; });
  nn::GptConfig deep = tiny_config();
  deep.layers = nn::GptConfig::max_layers;
  EXPECT_NO_THROW(deep.validate());
  ++deep.layers;
  try {
    deep.validate();
    ADD_FAILURE() << "10001 layers are not refused";
  } catch (const OptionError& error) {
    EXPECT_STREQ(error.what(), "reef::nn::GptConfig: layers is 10001.\n  fix: 1 to 10000.");
  }
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t none : {std::int64_t{0}, std::int64_t{-1}, least, most}) {
    for (const auto member :
         {&nn::GptConfig::layers, &nn::GptConfig::heads, &nn::GptConfig::channels,
          &nn::GptConfig::vocabulary, &nn::GptConfig::context, &nn::GptConfig::batch}) {
      refuses([&](nn::GptConfig& c) { c.*member = none; });
    }
  }
}

}  // namespace
