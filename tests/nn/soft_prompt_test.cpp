// Soft prompts: the operators' laws, models that have them, and their files.

#include <reef/nn/soft_prompt.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/graph/check_gradients.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/adapter_file.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/lora.hpp>
#include <reef/nn/mean_squared_error.hpp>
#include <reef/nn/session.hpp>

#include "../laws/operator.hpp"
#include "../support/temporary_folder.hpp"

namespace reef::test {

using device::Host;

struct PromptEmbeddingCase {
  static std::vector<InputCase> inputs() { return {{"tokens", {3, 5}, true}}; }
  static auto op() {
    return nn::PromptEmbedding<nn::Embedding>{{.vocabulary = 7, .positions = 6, .channels = 70}, 2};
  }
  static constexpr std::int32_t classes = 7;
  static constexpr double tolerance = 16;
  static constexpr bool stochastic = false;
};

struct PromptTokenEmbeddingCase : PromptEmbeddingCase {
  static auto op() {
    return nn::PromptEmbedding<nn::TokenEmbedding>{{.vocabulary = 7, .channels = 5}, 3};
  }
};

/// More positions of a prompt than a sample has.
struct LongPromptCase : PromptEmbeddingCase {
  static auto op() {
    return nn::PromptEmbedding<nn::Embedding>{{.vocabulary = 7, .positions = 9, .channels = 5}, 8};
  }
};

struct PromptCrossEntropyCase {
  static std::vector<InputCase> inputs() {
    return {{"logits", {3, 5, 7}}, {"targets", {3, 5}, true}};
  }
  static auto op() { return nn::PromptCrossEntropy{2}; }
  static constexpr std::int32_t classes = 7;
  static constexpr double tolerance = 32;
  static constexpr bool stochastic = false;
};

struct LayerPromptCase {
  static std::vector<InputCase> inputs() { return {{"in", {3, 5, 9}}}; }
  static auto op() { return nn::LayerPrompt{2}; }
  static constexpr std::int32_t classes = 1;
  static constexpr double tolerance = 16;
  static constexpr bool stochastic = false;
};

struct LongLayerPromptCase : LayerPromptCase {
  static auto op() { return nn::LayerPrompt{7}; }
};

using PromptSubjects =
    testing::Types<Subject<Host, LayerPromptCase>, Subject<Host, LongLayerPromptCase>,
                   Subject<Host, PromptEmbeddingCase>, Subject<Host, PromptTokenEmbeddingCase>,
                   Subject<Host, LongPromptCase>, Subject<Host, PromptCrossEntropyCase>>;
INSTANTIATE_TYPED_TEST_SUITE_P(SoftPrompt, OperatorLaws, PromptSubjects);

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Model = graph::Graph<Host, float>;
using Values = std::map<std::string, std::vector<float>>;
constexpr std::int32_t vocabulary = 11;

Model gpt(std::int64_t batch = 3) {
  return nn::gpt<Host, float>({.layers = 2,
                               .heads = 2,
                               .channels = 8,
                               .vocabulary = vocabulary,
                               .context = 6,
                               .batch = batch},
                              2);
}

/// With a head that is not the embedding.
Model llama(std::int64_t batch = 3) {
  return nn::llama<Host, float>({.layers = 2,
                                 .heads = 2,
                                 .kv_heads = 1,
                                 .channels = 8,
                                 .hidden = 12,
                                 .vocabulary = vocabulary,
                                 .context = 6,
                                 .batch = batch},
                                2);
}

std::vector<Model> models() { return {gpt(), llama()}; }

std::string name_of_prompt(const graph::Dag& dag) {
  for (const graph::Parameter& parameter : dag.parameters) {
    if (nn::is_of_prompt(parameter.name)) return parameter.name;
  }
  return "none";
}

/// The table of tokens' vectors.
std::string name_of_table(const graph::Dag& dag) { return dag.parameters[0].name; }

Values drawn(const graph::Dag& dag) {
  Values values;
  for (const graph::Parameter& parameter : dag.parameters) {
    std::vector<float>& own = values[parameter.name];
    own.resize(static_cast<std::size_t>(parameter.spec.shape.size()));
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto stream = static_cast<std::uint32_t>(values.size());
      own[i] = static_cast<float>(random_bits({stream, 0, 0, 0}, i) % 1024) / 1024.F - 0.5F;
    }
  }
  return values;
}

/// Tokens and targets of a batch, of which each sample begins with the same tokens.
std::vector<std::vector<std::int32_t>> texts(const graph::Dag& dag) {
  const Shape shape = dag.tensor_at(dag.inputs[0]).spec.shape;
  std::vector<std::vector<std::int32_t>> inputs(2);
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    const std::int64_t t = i % shape[1];
    inputs[0].push_back(static_cast<std::int32_t>((t < 2 ? 3 + t : i * 5) % vocabulary));
    inputs[1].push_back(static_cast<std::int32_t>((i * 7 + 2) % vocabulary));
  }
  return inputs;
}

void mask(std::vector<std::int32_t>& inputs, std::int64_t T, std::int64_t P, std::int32_t with) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (static_cast<std::int64_t>(i) % T < P) inputs[i] = with;
  }
}

struct Outcomes {
  double loss = 0;
  Values gradients;
  bool operator==(const Outcomes&) const = default;
};

/// The loss and the gradients of uses, by parameter, at given parameters and texts.
Outcomes run(const Model& model, const Values& values,
             const std::vector<std::vector<std::int32_t>>& inputs,
             const std::vector<int>& cuts = {}, int threads = 2) {
  Host device({.threads = threads});
  GraphRunner<Host, float> runner(device, model, cuts);
  const graph::Dag& dag = model.dag();
  for (std::size_t p = 0; p < dag.parameters.size(); ++p)
    runner.set_parameter(static_cast<int>(p), values.at(dag.parameters[p].name));
  for (std::size_t i = 0; i < inputs.size(); ++i) runner.set(dag.inputs[i], inputs[i]);
  runner.forward();
  runner.set_gradient(dag.loss, {1});
  runner.backward();
  Outcomes result{static_cast<double>(runner.value(dag.loss)[0]), {}};
  for (int use = 0; use < static_cast<int>(dag.uses.size()); ++use) {
    if (!dag.trains_use(use)) continue;
    result.gradients[dag.parameter_at(dag.use_at(use).parameter).name + concat(" ", use)] =
        runner.use_gradient(use);
  }
  return result;
}

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(SoftPrompt, gradients_are_those_of_finite_differences) {
  const auto passes = [](const auto& op, const std::vector<graph::TensorSpec>& inputs) {
    const graph::GradientCheck found = graph::check_gradients(op, inputs);
    EXPECT_TRUE(found.passed()) << found.text();
  };
  const graph::TensorSpec tokens{{3, 4}, Element::int32};
  passes(nn::PromptEmbedding<nn::Embedding>{{.vocabulary = 5, .positions = 4, .channels = 3}, 2},
         {tokens});
  passes(nn::PromptEmbedding<nn::TokenEmbedding>{{.vocabulary = 5, .channels = 3}, 2}, {tokens});
  passes(nn::PromptCrossEntropy{2}, {{{3, 4, 5}, Element::float64}, tokens});
}

TEST(SoftPrompt, alone_is_trained_and_stands_at_the_embedding) {
  for (const Model& base : models()) {
    const Model model = nn::with_prompts(base, {.tokens = 2});
    std::vector<std::string> trained;
    for (const graph::Parameter& parameter : model.dag().parameters) {
      if (!parameter.frozen) trained.push_back(parameter.name);
    }
    const std::string node = base.dag().node_at(0).name;
    EXPECT_THAT(trained, ElementsAre(node + ".prompt_embeddings"));
    EXPECT_EQ(model.dag().parameter_at(model.dag().parameter(trained[0])).spec.shape,
              (Shape{2, 8}));
    EXPECT_EQ(nn::prompt_tokens_of(model.dag()), 2);
    EXPECT_EQ(nn::prompt_tokens_of(base.dag()), 0);
    const Outcomes found = run(model, drawn(model.dag()), texts(model.dag()));
    EXPECT_EQ(found.gradients.size(), 1U);
    for (const auto& [name, of] : found.gradients) {
      EXPECT_TRUE(std::any_of(of.begin(), of.end(), [](float value) { return value != 0; }))
          << name;
    }
  }
}

TEST(SoftPrompt, of_the_vectors_of_tokens_has_the_bits_of_these_tokens_whose_targets_do_not_count) {
  for (const Model& base : models()) {
    const Model model = nn::with_prompts(base, {.tokens = 2});
    Values values = drawn(model.dag());
    const std::vector<float>& table = values.at(name_of_table(model.dag()));
    values.at(name_of_prompt(model.dag()))
        .assign(table.begin() + 3 * 8, table.begin() + 5 * 8);  // of tokens 3 and 4
    auto inputs = texts(base.dag());
    const Outcomes prompted = run(model, values, inputs);
    EXPECT_NE(run(base, values, inputs).loss, prompted.loss);
    mask(inputs[1], 6, 2, -1);
    EXPECT_EQ(run(base, values, inputs).loss, prompted.loss);
    // Nobody reads what lies there.
    mask(inputs[0], 6, 2, -77);
    mask(inputs[1], 6, 2, -77);
    EXPECT_EQ(run(model, values, inputs), prompted);
  }
}

TEST(SoftPrompt, has_the_bits_of_one_process_wherever_the_model_is_cut_and_whatever_the_threads) {
  for (const Model& base : models()) {
    const Model model = nn::with_prompts(base, {.tokens = 2});
    const Values values = drawn(model.dag());
    const Outcomes wanted = run(model, values, texts(model.dag()));
    std::vector<int> everywhere;
    for (int cut = 1; cut < model.dag().node_count(); ++cut) {
      everywhere.push_back(cut);
      EXPECT_EQ(run(model, values, texts(model.dag()), {cut}), wanted) << cut;
    }
    EXPECT_EQ(run(model, values, texts(model.dag()), everywhere), wanted);
    EXPECT_EQ(run(model, values, texts(model.dag()), {}, 1), wanted);
  }
}

TEST(SoftPrompt, some_tables_may_be_trained_beside_it) {
  for (const std::string frozen : {"none", "wte", "wpe", "prompt_embeddings"}) {
    SCOPED_TRACE(frozen);
    const auto made = [&](const std::string& freeze) {
      Model g(1);
      const int tokens = g.input("tokens", {{2, 4}, Element::int32});
      const nn::PromptEmbedding<nn::Embedding> op{
          {.vocabulary = vocabulary, .positions = 5, .channels = 3}, 2};
      const int x = g.add("e", op, {tokens})[0];
      const int wanted = g.input("wanted", {{2, 4, 3}, Element::float32});
      g.loss(g.add("loss", nn::MeanSquaredError{}, {x, wanted})[0]);
      if (freeze != "none") g.freeze("e." + freeze + "*");
      return g;
    };
    const auto gradients = [&](const Model& g) {
      Host device({.threads = 1});
      GraphRunner<Host, float> runner(device, g);
      const Values values = drawn(g.dag());
      for (std::size_t p = 0; p < g.dag().parameters.size(); ++p)
        runner.set_parameter(static_cast<int>(p), values.at(g.dag().parameters[p].name));
      runner.set(g.dag().inputs[0], std::vector<std::int32_t>{0, 0, 3, 4, 0, 0, 3, 5});
      runner.set(g.dag().inputs[1], std::vector<float>(24, 0.25F));
      runner.forward();
      runner.set_gradient(g.dag().loss, {1});
      runner.backward();
      Values result;
      for (int use = 0; use < static_cast<int>(g.dag().uses.size()); ++use) {
        if (g.dag().trains_use(use))
          result[g.dag().parameter_at(g.dag().use_at(use).parameter).name] =
              runner.use_gradient(use);
      }
      return result;
    };
    Values wanted = gradients(made("none"));
    ASSERT_EQ(wanted.size(), 3U);
    std::erase_if(wanted,
                  [&](const auto& entry) { return entry.first.starts_with("e." + frozen); });
    EXPECT_EQ(gradients(made(frozen)), wanted);
  }
}

TEST(SoftPrompt, that_cannot_be_is_refused_by_name) {
  const auto refused = [](const Model& base, std::int64_t tokens) {
    return refusal_of([&] { (void)nn::with_prompts(base, {.tokens = tokens}); });
  };
  EXPECT_THAT(refused(llama(), 0), HasSubstr("tokens is 0"));
  EXPECT_THAT(refused(llama(), -3), HasSubstr("tokens is -3"));
  EXPECT_THAT(refused(gpt(), 6), HasSubstr("'transformer.embedding' has 6"));
  EXPECT_EQ(refused(gpt(), 5), "none");
  EXPECT_THAT(refused(nn::with_prompts(llama(), {.tokens = 2}), 2),
              HasSubstr("without adapters and prompts"));
  EXPECT_THAT(refused(nn::with_lora(llama(), {.rank = 2}), 2), HasSubstr("q_proj.lora_A.weight"));
  EXPECT_THAT(refusal_of([] {
                (void)nn::with_lora(nn::with_prompts(llama(), {.tokens = 2}), {.rank = 2});
              }),
              HasSubstr("the model has a soft prompt"));
  Model none(1);
  const int x = none.input("x", {{2, 3}, Element::float32});
  none.add("fc", nn::Linear{.features = 4}, {x});
  EXPECT_THAT(refused(none, 2), HasSubstr("the model has 0 embeddings"));
  Model squared(1);
  const int tokens = squared.input("tokens", {{2, 4}, Element::int32});
  const int wanted = squared.input("wanted", {{2, 4, 3}, Element::float32});
  const int y = squared.add("e", nn::TokenEmbedding{.vocabulary = 5, .channels = 3}, {tokens})[0];
  squared.loss(squared.add("loss", nn::MeanSquaredError{}, {y, wanted})[0]);
  EXPECT_THAT(refused(squared, 2), HasSubstr("is of no nn::CrossEntropy"));
}

TEST(SoftPrompt, in_a_session_has_the_bits_of_the_tokens_whose_vectors_it_is) {
  for (const bool is_gpt : {true, false}) {
    const Model base = is_gpt ? gpt(1) : llama(1);
    const Model model = nn::with_prompts(base, {.tokens = 2});
    Values values = drawn(model.dag());
    const std::vector<float>& table = values.at(name_of_table(model.dag()));
    values.at(name_of_prompt(model.dag())).assign(table.begin() + 3 * 8, table.begin() + 5 * 8);
    Host host({.threads = 2});
    const auto logits = [&](const Model& of, const std::vector<std::int32_t>& tokens,
                            std::size_t first) {
      nn::Session<Host, float> session(host, of, {.positions = 6, .rows = 3});
      for (const graph::Parameter& parameter : of.dag().parameters) {
        session.set_parameter(parameter.name, values.at(parameter.name));
      }
      const int sequence = session.open();
      std::vector<float> all;
      const auto keep = [&](std::span<const std::int32_t> part) {
        const nn::Logits found = session.append({{sequence, part, true}});
        all.insert(all.end(), found.values.begin(), found.values.end());
      };
      if (first > 0) keep(std::span(tokens).first(first));
      for (std::size_t i = first; i < tokens.size(); ++i) keep(std::span(tokens).subspan(i, 1));
      return all;
    };
    const std::vector<float> wanted = logits(base, {3, 4, 9, 1, 5}, 0);
    for (const std::size_t first : {0U, 1U, 2U, 4U, 5U}) {
      EXPECT_EQ(logits(model, {0, 0, 9, 1, 5}, first), wanted) << first;
      EXPECT_EQ(logits(model, {7, 10, 9, 1, 5}, first), wanted) << first;
    }
  }
}

/// The loss of a model in fp64 at drawn parameters, one element of one parameter moved, and the gradient of that element.
std::pair<double, double> loss_and_slope(const graph::Graph<Host, double>& model, const std::string& moved, std::size_t element,
                                         double by) {
  Host device({.threads = 1});
  GraphRunner<Host, double> runner(device, model);
  const graph::Dag& dag = model.dag();
  for (const auto& [name, values] : drawn(dag)) {
    std::vector<double> own(values.begin(), values.end());
    if (name == moved) own[element] += by;
    runner.set_parameter(dag.parameter(name), own);
  }
  const auto inputs = texts(dag);
  for (std::size_t i = 0; i < inputs.size(); ++i) runner.set(dag.inputs[i], inputs[i]);
  runner.forward();
  runner.set_gradient(dag.loss, {1});
  runner.backward();
  return {runner.value(dag.loss)[0], runner.parameter_gradient(dag.parameter(moved))[element]};
}

TEST(DeepPrompt, adds_a_vector_to_each_of_the_first_positions_of_each_sample) {
  Model g(2);
  const int x = g.input("x", {{2, 3, 4}, Element::float32});
  const int out = g.add("p", nn::LayerPrompt{2}, {x})[0];
  Host device({.threads = 2});
  GraphRunner<Host, float> runner(device, g);
  std::vector<float> in(24), prompt(8), wanted(24);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = 0.5F + 100 * static_cast<float>(i);
  for (std::size_t i = 0; i < in.size(); ++i) wanted[i] = in[i] + (i % 12 < 8 ? prompt[i % 12] : 0);
  runner.set(x, in);
  runner.set_parameter(0, prompt);
  runner.forward();
  EXPECT_EQ(runner.value(out), wanted);
}

TEST(DeepPrompt, is_before_each_layer_has_the_bits_of_none_while_it_is_zero_and_the_gradient_of_differences) {
  const auto of_double = [](bool is_gpt) {
    const auto base = is_gpt ? nn::gpt<Host, double>({.layers = 2, .heads = 2, .channels = 8, .vocabulary = vocabulary,
                                                      .context = 6, .batch = 3}, 1)
                             : nn::llama<Host, double>({.layers = 2, .heads = 2, .kv_heads = 1, .channels = 8, .hidden = 12,
                                                        .vocabulary = vocabulary, .context = 6, .batch = 3}, 1);
    return nn::with_prompts(base, {.tokens = 2, .deep = true});
  };
  for (const bool is_gpt : {true, false}) {
    const Model base = is_gpt ? gpt() : llama();
    const Model shallow = nn::with_prompts(base, {.tokens = 2});
    const Model deep = nn::with_prompts(base, {.tokens = 2, .deep = true});
    const std::string layers = is_gpt ? "transformer.h." : "model.layers.";
    EXPECT_EQ(deep.dag().node_count(), shallow.dag().node_count() + 2);
    EXPECT_EQ(nn::prompt_tokens_of(deep.dag()), 2);
    Values values = drawn(deep.dag());
    for (const graph::Parameter& parameter : deep.dag().parameters)
      EXPECT_EQ(parameter.frozen, !nn::is_of_prompt(parameter.name)) << parameter.name;
    const Outcomes moved = run(deep, values, texts(base.dag()));
    for (const std::string layer : {"0", "1"}) {
      const std::string name = layers + layer + ".prompt.prompt_embeddings";
      EXPECT_EQ(deep.dag().parameter_at(deep.dag().parameter(name)).spec.shape, (Shape{2, 8}));
      EXPECT_EQ(deep.dag().parameter_at(deep.dag().parameter(name)).init.law, graph::Init::Law::zeros);
      values.at(name).assign(16, 0);
      for (const std::size_t element : {0U, 7U, 13U}) {
        const double h = 1e-5;
        const auto model = of_double(is_gpt);
        const double difference =
            loss_and_slope(model, name, element, h).first - loss_and_slope(model, name, element, -h).first;
        const double slope = loss_and_slope(model, name, element, 0).second;
        EXPECT_NEAR(difference / (2 * h), slope, 1e-8) << name;
        EXPECT_GT(std::abs(slope), 1e-6) << name;
      }
    }
    const double of_zeros = run(deep, values, texts(base.dag())).loss;
    EXPECT_NE(of_zeros, moved.loss);
    EXPECT_EQ(of_zeros, run(shallow, values, texts(base.dag())).loss);
  }
}

TEST(DeepPrompt, has_the_bits_of_one_process_wherever_the_model_is_cut) {
  for (const Model& base : models()) {
    const Model model = nn::with_prompts(base, {.tokens = 2, .deep = true});
    const Values values = drawn(model.dag());
    const Outcomes wanted = run(model, values, texts(model.dag()));
    for (int cut = 1; cut < model.dag().node_count(); ++cut) EXPECT_EQ(run(model, values, texts(model.dag()), {cut}), wanted) << cut;
  }
}

TEST(DeepPrompt, in_a_session_has_the_loss_of_the_graph_and_the_same_bits_however_a_sequence_is_read) {
  for (const bool is_gpt : {true, false}) {
    const Model model = nn::with_prompts(is_gpt ? gpt() : llama(), {.tokens = 2, .deep = true});
    const Values values = drawn(model.dag());
    const auto inputs = texts(model.dag());
    Host host({.threads = 2});
    // (T, V) of one sample, its first tokens read at once and the others one by one.
    const auto logits = [&](const Values& of, std::size_t sample, std::size_t first) {
      nn::Session<Host, float> session(host, model, {.positions = 6, .rows = 4});
      for (const graph::Parameter& parameter : model.dag().parameters)
        session.set_parameter(parameter.name, of.at(parameter.name));
      const int sequence = session.open();
      const auto tokens = std::span(inputs[0]).subspan(6 * sample, 6);
      std::vector<float> all;
      const auto keep = [&](std::span<const std::int32_t> part) {
        const nn::Logits found = session.append({{sequence, part, true}});
        all.insert(all.end(), found.values.begin(), found.values.end());
      };
      if (first > 0) keep(tokens.first(first));
      for (std::size_t i = first; i < tokens.size(); ++i) keep(tokens.subspan(i, 1));
      return all;
    };
    double loss = 0;
    for (std::size_t sample = 0; sample < 3; ++sample) {
      const std::vector<float> rows = logits(values, sample, 6);
      for (const std::size_t first : {0U, 1U, 2U, 3U, 5U}) EXPECT_EQ(logits(values, sample, first), rows) << first;
      for (std::size_t t = 2; t < 6; ++t) {
        const auto row = std::span(rows).subspan(t * vocabulary, vocabulary);
        double sum = 0;
        for (const float logit : row) sum += std::exp(static_cast<double>(logit));
        loss += std::log(sum) - static_cast<double>(row[static_cast<std::size_t>(inputs[1][6 * sample + t])]);
      }
    }
    EXPECT_NEAR(loss / 12, run(model, values, inputs).loss, 1e-5);
    Values other = values;
    other.at(is_gpt ? "transformer.h.1.prompt.prompt_embeddings" : "model.layers.1.prompt.prompt_embeddings")[3] += 1;
    EXPECT_NE(logits(other, 0, 6), logits(values, 0, 6));
  }
}

TEST(DeepPrompt, of_a_model_without_layers_is_refused) {
  Model g(1);
  const int tokens = g.input("tokens", {{2, 4}, Element::int32});
  const int targets = g.input("targets", {{2, 4}, Element::int32});
  const int x = g.add("e", nn::TokenEmbedding{.vocabulary = 5, .channels = 3}, {tokens})[0];
  const int logits = g.add("head", nn::Linear{.features = 5}, {x})[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {logits, targets})[0]);
  EXPECT_THAT(refusal_of([&] { (void)nn::with_prompts(g, {.tokens = 2, .deep = true}); }), HasSubstr("the model has no layers"));
}

TEST(PromptFile, of_a_deep_prompt_is_of_a_type_that_peft_refuses_and_is_read_again) {
  const TemporaryFolder folder;
  const nn::SoftPrompt prompt{.tokens = 2, .deep = true};
  const Model model = nn::with_adapter(llama(), prompt);
  const Values values = drawn(model.dag());
  nn::write_adapter_config(folder.path(), prompt, "base", false, model.dag());
  nn::write_adapter<float>(folder.path(), model.dag(), [&](const std::string& name) { return values.at(name); });
  EXPECT_EQ(io::read_json(folder.path() / "adapter_config.json").at("peft_type"), "DEEP_PROMPT_TUNING");
  const auto read = std::get<nn::SoftPrompt>(nn::read_adapter_config(folder.path()));
  EXPECT_TRUE(read.deep);
  EXPECT_EQ(read.tokens, 2);
  std::size_t count = 0;
  nn::read_adapter<float>(folder.path(), nn::with_adapter(llama(), read).dag(),
                          [&](std::string_view name, const std::vector<float>& of) {
                            EXPECT_EQ(of, values.at(std::string(name))) << name;
                            ++count;
                          });
  EXPECT_EQ(count, 3U);
}

TEST(PromptFile, gives_back_what_was_written_with_the_names_of_peft) {
  for (const Model& base : models()) {
    const TemporaryFolder folder;
    const Model model = nn::with_prompts(base, {.tokens = 2});
    const Values values = drawn(model.dag());
    nn::write_adapter_config(folder.path(), nn::SoftPrompt{2}, "base", false, model.dag());
    nn::write_adapter<float>(folder.path(), model.dag(),
                             [&](const std::string& name) { return values.at(name); });
    const nn::Adapter read = nn::read_adapter_config(folder.path());
    EXPECT_EQ(std::get<nn::SoftPrompt>(read).tokens, 2);
    EXPECT_EQ(nn::with_adapter(base, read).dag().parameters.size(), model.dag().parameters.size());
    std::vector<std::string> names;
    nn::read_adapter<float>(folder.path(), model.dag(),
                            [&](std::string_view name, const std::vector<float>& of) {
                              EXPECT_EQ(of, values.at(std::string(name)));
                              names.emplace_back(name);
                            });
    EXPECT_THAT(names, ElementsAre(name_of_prompt(model.dag())));
    const io::SafetensorsFile file(folder.path() / "adapter_model.safetensors");
    ASSERT_EQ(file.tensors().size(), 1U);
    EXPECT_EQ(file.tensors()[0].name, "prompt_embeddings");
    EXPECT_THAT(file.tensors()[0].shape, ElementsAre(2, 8));
    const io::Json config = io::read_json(folder.path() / "adapter_config.json");
    EXPECT_EQ(config.at("peft_type"), "PROMPT_TUNING");
    EXPECT_EQ(config.at("num_virtual_tokens"), 2);
    EXPECT_EQ(config.at("task_type"), "CAUSAL_LM");
    EXPECT_EQ(config.at("base_model_name_or_path"), "base");
  }
}

TEST(PromptFile, of_another_model_or_kind_or_damaged_is_refused_by_name) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "adapter_model.safetensors";
  const Model model = nn::with_prompts(llama(), {.tokens = 2});
  const Values values = drawn(model.dag());
  const auto write = [&](const Model& of, const Values& from) {
    nn::write_adapter<float>(folder.path(), of.dag(),
                             [&](const std::string& name) { return from.at(name); });
  };
  const auto refused = [&](const Model& by) {
    return refusal_of([&] {
      nn::read_adapter<float>(folder.path(), by.dag(),
                              [](const auto&, const auto&) { ADD_FAILURE(); });
    });
  };
  write(model, values);
  EXPECT_THAT(refused(nn::with_prompts(llama(), {.tokens = 3})), HasSubstr("(3, 8)"));
  const Model lora = nn::with_lora(llama(), {.rank = 2, .targets = {"q_proj"}});
  EXPECT_THAT(refused(lora), HasSubstr("q_proj.lora_A.weight"));
  Values broken = values;
  broken.at(name_of_prompt(model.dag()))[3] = NAN;
  write(model, broken);
  EXPECT_THAT(refused(model), HasSubstr("element 3 of tensor 'prompt_embeddings'"));
  write(lora, drawn(lora.dag()));
  EXPECT_THAT(refused(model),
              HasSubstr("no tensor for the model's 'model.embed_tokens.prompt_embeddings'"));
  write(model, values);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 5);
  EXPECT_THAT(refused(model), HasSubstr("adapter_model.safetensors"));

  const auto config = [&](const std::string& members) {
    io::write_atomically(folder.path() / "adapter_config.json", "{" + members + "}");
    return refusal_of([&] { (void)nn::read_adapter_config(folder.path()); });
  };
  const std::string type = R"("peft_type": "PROMPT_TUNING")";
  EXPECT_EQ(config(type + R"(, "num_virtual_tokens": 8)"), "none");
  EXPECT_EQ(
      config(
          type +
          R"(, "num_virtual_tokens": 8, "task_type": "CAUSAL_LM", "token_dim": 8, "num_layers": 2,
                          "num_attention_heads": 2, "num_transformer_submodules": 1, "prompt_tuning_init": "TEXT",
                          "prompt_tuning_init_text": "Classify:", "tokenizer_name_or_path": "gpt2")"),
      "none");
  EXPECT_THAT(config(type + R"(, "num_virtual_tokens": 8, "encoder_hidden_size": 8)"), HasSubstr("encoder_hidden_size"));
  const auto of_width = [&](const std::string& width) {
    io::write_atomically(folder.path() / "adapter_config.json",
                         concat("{", type, R"(, "num_virtual_tokens": 2, "token_dim": )", width, "}"));
    return refusal_of([&] { (void)nn::with_adapter(llama(), nn::read_adapter_config(folder.path()), folder.path()); });
  };
  EXPECT_EQ(of_width("null"), "none");
  EXPECT_EQ(of_width("8"), "none");
  EXPECT_THAT(of_width("7"), HasSubstr("adapter_config.json': token_dim is 7, but the model has 8 channels"));
  EXPECT_THAT(config(type), HasSubstr("num_virtual_tokens"));
  EXPECT_THAT(config(type + R"(, "num_virtual_tokens": "8")"), HasSubstr("num_virtual_tokens"));
  EXPECT_THAT(config(type + R"(, "num_virtual_tokens": 0)"), HasSubstr("tokens is 0"));
  EXPECT_THAT(config(type + R"(, "num_virtual_tokens": 8, "num_transformer_submodules": 2)"),
              HasSubstr("num_transformer_submodules is 2"));
  EXPECT_THAT(config(type + R"(, "num_virtual_tokens": 8, "task_type": "SEQ_2_SEQ_LM")"),
              HasSubstr("task_type"));
  for (const std::string other : {"PREFIX_TUNING", "P_TUNING", "MULTITASK_PROMPT_TUNING", "IA3"}) {
    EXPECT_THAT(config(concat(R"("peft_type": ")", other, R"(", "num_virtual_tokens": 8)")),
                testing::AllOf(HasSubstr("peft_type is '" + other + "'"),
                               HasSubstr("LORA or PROMPT_TUNING"), HasSubstr("fix:")));
  }
  EXPECT_THAT(config(R"("num_virtual_tokens": 8)"), HasSubstr("peft_type"));
}

}  // namespace
}  // namespace reef::test
