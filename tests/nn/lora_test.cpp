// Low-rank adapters: the operator's laws, models that have them, and their files.

#include <reef/nn/lora.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/graph/check_gradients.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/nn/adapter_file.hpp>
#include <reef/nn/bloom.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/llama.hpp>

#include "../laws/operator.hpp"
#include "../support/temporary_folder.hpp"

namespace reef::test {

using device::Host;

struct LoraCase {
  static std::vector<InputCase> inputs() { return {{"in", {3, 2, 5}}}; }
  static auto op() { return nn::LoraLinear{{.features = 7}, 2, 3}; }
  static constexpr std::int32_t classes = 1;
  static constexpr double tolerance = 32;
  static constexpr bool stochastic = false;
};

struct TransposedLoraCase : LoraCase {
  static auto op() {
    return nn::LoraLinear{{.features = 9, .bias = false, .transpose = nn::Transpose::yes}, 3, 6};
  }
};

using LoraSubjects = testing::Types<Subject<Host, LoraCase>, Subject<Host, TransposedLoraCase>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Lora, OperatorLaws, LoraSubjects);

namespace {

const nn::LlamaConfig tiny{.layers = 2,
                           .heads = 2,
                           .kv_heads = 1,
                           .channels = 8,
                           .hidden = 12,
                           .vocabulary = 11,
                           .context = 6,
                           .batch = 2};

template <class T>
std::vector<T> numbers(std::int64_t size, std::uint32_t stream) {
  std::vector<T> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = T(static_cast<float>(random_bits({stream, 0, 0, 0}, i) % 1024) / 1024.F - 0.5F);
  }
  return values;
}

/// Some values for each parameter of a model.
std::map<std::string, std::vector<float>> drawn(const graph::Dag& dag) {
  std::map<std::string, std::vector<float>> values;
  for (const graph::Parameter& parameter : dag.parameters) {
    values[parameter.name] =
        numbers<float>(parameter.spec.shape.size(), static_cast<std::uint32_t>(values.size()));
  }
  return values;
}

/// The loss of a model at given parameters.
double loss_of(const graph::Graph<Host, float>& model,
               const std::map<std::string, std::vector<float>>& values) {
  Host device({.threads = 1});
  GraphRunner<Host, float> runner(device, model);
  const graph::Dag& dag = model.dag();
  for (std::size_t p = 0; p < dag.parameters.size(); ++p)
    runner.set_parameter(static_cast<int>(p), values.at(dag.parameters[p].name));
  for (const int input : dag.inputs) {
    std::vector<std::int32_t> tokens(
        static_cast<std::size_t>(dag.tensor_at(input).spec.shape.size()));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>((i * 5 + static_cast<std::size_t>(input)) % 11);
    runner.set(input, tokens);
  }
  runner.forward();
  return static_cast<double>(runner.value(dag.loss)[0]);
}

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Lora, gradients_are_those_of_finite_differences) {
  for (const bool bias : {true, false}) {
    const nn::LoraLinear op{{.features = 5, .bias = bias, .transpose = nn::Transpose::yes}, 2, 3};
    const graph::GradientCheck found = graph::check_gradients(op, {{{3, 4}, Element::float64}});
    EXPECT_TRUE(found.passed()) << found.text();
  }
}

TEST(Lora, adapters_alone_are_trained_and_change_nothing_before_they_are) {
  const auto base = nn::llama<Host, float>(tiny, 1);
  const auto model =
      nn::with_lora(base, {.rank = 2, .alpha = 4, .targets = {"q_proj", "mlp.down_proj"}});
  std::vector<std::string> trained;
  for (const graph::Parameter& parameter : model.dag().parameters) {
    if (!parameter.frozen) trained.push_back(parameter.name);
  }
  EXPECT_THAT(trained, testing::ElementsAre("model.layers.0.self_attn.q_proj.lora_A.weight",
                                            "model.layers.0.self_attn.q_proj.lora_B.weight",
                                            "model.layers.0.mlp.down_proj.lora_A.weight",
                                            "model.layers.0.mlp.down_proj.lora_B.weight",
                                            "model.layers.1.self_attn.q_proj.lora_A.weight",
                                            "model.layers.1.self_attn.q_proj.lora_B.weight",
                                            "model.layers.1.mlp.down_proj.lora_A.weight",
                                            "model.layers.1.mlp.down_proj.lora_B.weight"));
  EXPECT_EQ(
      model.dag()
          .parameter_at(model.dag().parameter("model.layers.0.self_attn.q_proj.lora_A.weight"))
          .spec.shape,
      (Shape{2, 8}));
  EXPECT_EQ(model.dag()
                .parameter_at(model.dag().parameter("model.layers.0.mlp.down_proj.lora_B.weight"))
                .spec.shape,
            (Shape{8, 2}));
  auto values = drawn(model.dag());
  for (auto& [name, of] : values) {
    if (name.ends_with("lora_B.weight")) of.assign(of.size(), 0);
  }
  EXPECT_EQ(loss_of(model, values), loss_of(base, values));
}

TEST(Lora, merged_weights_compute_what_the_adapters_do) {
  const auto expect_merged = [](const graph::Graph<Host, float>& base, const nn::Lora& lora) {
    const auto model = nn::with_lora(base, lora);
    const auto values = drawn(model.dag());
    std::map<std::string, std::vector<float>> merged;
    for (const graph::Parameter& parameter : base.dag().parameters) {
      merged[parameter.name] = nn::merged_lora<float>(
          model, parameter.name, [&](const std::string& name) { return values.at(name); });
    }
    EXPECT_NE(merged, values);
    EXPECT_NEAR(loss_of(base, merged), loss_of(model, values), 2e-5);
    EXPECT_GT(std::abs(loss_of(base, values) - loss_of(model, values)), 1e-4);
  };
  expect_merged(nn::llama<Host, float>(tiny, 1),
                {.rank = 3, .alpha = 6, .targets = {"all-linear"}});
  expect_merged(
      nn::gpt<Host, float>(
          {.layers = 2, .heads = 2, .channels = 8, .vocabulary = 11, .context = 6, .batch = 2}, 1),
      {.rank = 2, .alpha = 16});
}

TEST(Lora, targets_that_select_one_map_are_as_one) {
  const auto base = nn::llama<Host, float>(tiny, 1);
  const auto adapters = [&](const std::vector<std::string>& targets) {
    return nn::with_lora(base, {.rank = 2, .targets = targets}).dag().parameters.size();
  };
  const std::size_t one = adapters({"q_proj"});
  EXPECT_GT(one, base.dag().parameters.size());
  EXPECT_EQ(adapters({"q_proj", "q_proj"}), one);
  EXPECT_EQ(adapters({"q_proj", "self_attn.q_proj", "q_proj"}), one);
}

TEST(Lora, targets_that_no_linear_map_has_are_named) {
  const auto base = nn::llama<Host, float>(tiny, 1);
  EXPECT_THAT(refusal_of([&] {
                nn::with_adapter(base, nn::Lora{.targets = {"q_proj", "c_fc"}}, "adapter");
              }),
              testing::AllOf(testing::HasSubstr("adapter_config.json': target_modules: "),
                             testing::HasSubstr("the target 'c_fc'")));
  EXPECT_THAT(refusal_of([&] {
                nn::with_lora(base, {.targets = {"q_proj", "c_fc"}});
              }),
              testing::HasSubstr("the target 'c_fc'"));
  EXPECT_THAT(refusal_of([&] { nn::with_lora(base, {.targets = {"roj"}}); }),
              testing::HasSubstr("the target 'roj'"));
  EXPECT_THAT(refusal_of([&] { nn::with_lora(base, {.rank = 0}); }),
              testing::HasSubstr("rank is 0"));
  EXPECT_THAT(refusal_of([&] { nn::with_lora(base, {.alpha = -1}); }),
              testing::HasSubstr("alpha is -1"));
}

TEST(Lora, of_bloom_and_neox_is_at_their_fused_projections_and_all_linear_leaves_out_either_head) {
  const auto bloom = nn::bloom<Host, float>({.layers = 2, .heads = 2, .channels = 8, .vocabulary = 11, .context = 6}, 1);
  const auto neox = nn::gpt_neox<Host, float>(
      {.layers = 2, .heads = 2, .channels = 8, .hidden = 12, .vocabulary = 11, .context = 6}, 1);
  const auto adapters = [](const auto& base, const nn::Lora& lora) {
    int count = 0;
    const auto model = nn::with_lora(base, lora);
    for (const graph::Parameter& parameter : model.dag().parameters) {
      if (!parameter.name.ends_with(".lora_A.weight")) continue;
      EXPECT_FALSE(parameter.name.starts_with("embed_out") || parameter.name.starts_with("lm_head")) << parameter.name;
      if (lora.targets.empty()) {
        EXPECT_THAT(parameter.name, testing::HasSubstr(".query_key_value."));
      }
      ++count;
    }
    return count;
  };
  EXPECT_EQ(adapters(bloom, {.rank = 2}), 2);
  EXPECT_EQ(adapters(neox, {.rank = 2}), 2);
  EXPECT_EQ(adapters(bloom, {.rank = 2, .targets = {"all-linear"}}), 8);
  EXPECT_EQ(adapters(neox, {.rank = 2, .targets = {"all-linear"}}), 8);
}

TEST(AdapterFile, gives_back_what_was_written_with_the_names_of_peft) {
  const TemporaryFolder folder;
  const nn::Lora lora{.rank = 2, .alpha = 4, .targets = {"q_proj", "v_proj"}};
  const auto model = nn::with_lora(nn::llama<Host, float>(tiny, 1), lora);
  const auto values = drawn(model.dag());
  nn::write_adapter_config(folder.path(), lora, "base", false, model.dag());
  nn::write_adapter<float>(folder.path(), model.dag(),
                           [&](const std::string& name) { return values.at(name); });
  const nn::Lora read = std::get<nn::Lora>(nn::read_adapter_config(folder.path()));
  EXPECT_EQ(read.rank, 2);
  EXPECT_EQ(read.alpha, 4);
  EXPECT_EQ(read.targets, lora.targets);
  std::size_t count = 0;
  nn::read_adapter<float>(folder.path(), model.dag(),
                          [&](std::string_view name, const std::vector<float>& of) {
                            EXPECT_EQ(of, values.at(std::string(name))) << name;
                            ++count;
                          });
  EXPECT_EQ(count, 8U);
  const io::SafetensorsFile file(folder.path() / "adapter_model.safetensors");
  EXPECT_NE(file.find("base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight"), nullptr);
}

TEST(AdapterFile, without_targets_names_those_of_the_model) {
  const TemporaryFolder folder;
  const auto written = [&](const graph::Graph<Host, float>& base, bool in_out) {
    const nn::Lora lora{.rank = 2};
    nn::write_adapter_config(folder.path(), lora, "base", in_out, nn::with_lora(base, lora).dag());
    return std::get<nn::Lora>(nn::read_adapter_config(folder.path())).targets;
  };
  const auto bloom =
      nn::bloom<Host, float>({.layers = 2, .heads = 2, .channels = 8, .vocabulary = 11, .context = 6}, 1);
  const auto neox = nn::gpt_neox<Host, float>(
      {.layers = 2, .heads = 2, .channels = 8, .hidden = 12, .vocabulary = 11, .context = 6}, 1);
  const auto gpt2 =
      nn::gpt<Host, float>({.layers = 2, .heads = 2, .channels = 8, .vocabulary = 11, .context = 6, .batch = 2}, 1);
  EXPECT_THAT(written(bloom, false), testing::ElementsAre("query_key_value"));
  EXPECT_THAT(written(neox, false), testing::ElementsAre("query_key_value"));
  EXPECT_THAT(written(gpt2, true), testing::ElementsAre("c_attn"));
  EXPECT_THAT(written(nn::llama<Host, float>(tiny, 1), false), testing::ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(
      refusal_of([&] { nn::write_adapter_config(folder.path(), nn::Lora{.rank = 2}, "base", false, bloom.dag()); }),
      testing::HasSubstr("the model has no adapters"));
}

TEST(AdapterFile, of_another_model_or_kind_is_refused_by_name) {
  const TemporaryFolder folder;
  const auto base = nn::llama<Host, float>(tiny, 1);
  const auto model = nn::with_lora(base, {.rank = 2, .targets = {"q_proj"}});
  const auto values = drawn(model.dag());
  nn::write_adapter<float>(folder.path(), model.dag(),
                           [&](const std::string& name) { return values.at(name); });
  const auto refused = [&](const nn::Lora& lora) {
    const auto other = nn::with_lora(base, lora);
    return refusal_of([&] {
      nn::read_adapter<float>(folder.path(), other.dag(),
                              [](const auto&, const auto&) { ADD_FAILURE(); });
    });
  };
  EXPECT_THAT(refused({.rank = 2, .targets = {"q_proj", "v_proj"}}),
              testing::HasSubstr("v_proj.lora_A.weight"));
  EXPECT_THAT(refused({.rank = 2, .targets = {"v_proj"}}),
              testing::HasSubstr("v_proj.lora_A.weight"));
  EXPECT_THAT(refused({.rank = 3, .targets = {"q_proj"}}), testing::HasSubstr("(2, 8)"));
  auto broken = values;
  broken.begin()->second[0] = NAN;
  for (auto& [name, of] : broken) of.back() = INFINITY;
  nn::write_adapter<float>(folder.path(), model.dag(),
                           [&](const std::string& name) { return broken.at(name); });
  EXPECT_THAT(refused({.rank = 2, .targets = {"q_proj"}}), testing::HasSubstr("NaN or infinite"));

  const auto config = [&](const std::string& members) {
    io::write_atomically(
        folder.path() / "adapter_config.json",
        R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none", "target_modules": ["q_proj"])" +
            members + "}");
    return refusal_of([&] { (void)nn::read_adapter_config(folder.path()); });
  };
  EXPECT_EQ(config(""), "none");
  EXPECT_EQ(
      config(
          R"(, "task_type": null, "modules_to_save": null, "rank_pattern": {}, "use_dora": false)"),
      "none");
  for (const char* const field : {"use_dora", "use_rslora", "lora_bias", "use_qalora"}) {
    EXPECT_THAT(config(concat(", \"", field, "\": true")), testing::HasSubstr(field));
  }
  EXPECT_EQ(config(R"(, "base_model_name_or_path": "llama", "auto_mapping": {"a": "b"}, "megatron_core": "megatron.core",
      "loftq_config": {}, "qalora_group_size": 16, "lora_dropout": 0.1, "inference_mode": true, "revision": "main",
      "peft_version": "0.18.0", "use_bdlora": false, "other": [], "another": 0, "text": "")"),
            "none");
  for (const char* const unknown : {"true", "1", "\"yes\"", "[1]", "{\"a\": null}"}) {
    EXPECT_THAT(config(concat(R"(, "use_bdlora": )", unknown)), testing::HasSubstr("use_bdlora")) << unknown;
  }
  EXPECT_THAT(config(R"(, "num_virtual_tokens": 8)"), testing::HasSubstr("num_virtual_tokens"));
  EXPECT_THAT(config(R"(, "rank_pattern": {"q_proj": 4})"), testing::HasSubstr("rank_pattern"));
  EXPECT_THAT(config(R"(, "modules_to_save": ["lm_head"])"), testing::HasSubstr("modules_to_save"));
  EXPECT_THAT(config(R"(, "init_lora_weights": "pissa")"), testing::HasSubstr("init_lora_weights"));
  EXPECT_EQ(config(R"(, "task_type": "SEQ_CLS", "modules_to_save": ["classifier", "score"])"), "none");
  EXPECT_THAT(config(R"(, "task_type": "SEQ_CLS", "modules_to_save": ["score", "lm_head"])"), testing::HasSubstr("modules_to_save"));
  EXPECT_THAT(config(R"(, "modules_to_save": ["score"])"), testing::HasSubstr("modules_to_save"));
  EXPECT_THAT(config(R"(, "task_type": "TOKEN_CLS")"), testing::HasSubstr("task_type"));
  const auto whole = [&](const std::string& text) {
    io::write_atomically(folder.path() / "adapter_config.json", text);
    return refusal_of([&] { (void)nn::read_adapter_config(folder.path()); });
  };
  EXPECT_THAT(whole(R"({"peft_type": "IA3", "r": 2, "lora_alpha": 4, "target_modules": ["q"]})"),
              testing::HasSubstr("peft_type"));
  EXPECT_THAT(whole(R"({"peft_type": "LORA", "r": -1, "lora_alpha": 4, "target_modules": ["q"]})"),
              testing::HasSubstr("rank is -1"));
  EXPECT_THAT(whole(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ".*q"})"),
              testing::HasSubstr("expression"));
  EXPECT_THAT(whole(R"({"peft_type": "LORA", "lora_alpha": 4, "target_modules": ["q"]})"),
              testing::HasSubstr("r"));
}

}  // namespace
}  // namespace reef::test
