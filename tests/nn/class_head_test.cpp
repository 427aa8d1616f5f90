// A class head in place of a language head: what it computes, whose gradients it has, and its file.

#include <reef/nn/class_head.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/data/packed_pairs.hpp>
#include <reef/data/pairs.hpp>
#include <reef/device/host.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/adapter_file.hpp>
#include <reef/nn/bloom.hpp>
#include <reef/nn/draw_token.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/lora.hpp>
#include <reef/nn/packing.hpp>
#include <reef/nn/session.hpp>
#include <reef/nn/soft_prompt.hpp>

#include "../laws/graph_runner.hpp"
#include "../support/temporary_folder.hpp"

namespace reef::test {
namespace {

using device::Host;
using testing::HasSubstr;
using Model = graph::Graph<Host, double>;
using Numbers = std::vector<double>;
using Tokens = std::vector<std::int32_t>;
constexpr std::int32_t vocabulary = 11;
constexpr std::int64_t context = 12;
constexpr std::size_t C = 8;
constexpr std::size_t classes = 3;

Model gpt(std::int64_t batch) {
  return nn::gpt<Host, double>(
      {.layers = 2, .heads = 2, .channels = C, .vocabulary = vocabulary, .context = context, .batch = batch}, 2);
}
Model llama(std::int64_t batch) {
  return nn::llama<Host, double>({.layers = 2, .heads = 2, .kv_heads = 1, .channels = C, .hidden = 12,
                                  .vocabulary = vocabulary, .context = context, .batch = batch}, 2);
}
Model bloom(std::int64_t batch) {
  return nn::bloom<Host, double>(
      {.layers = 2, .heads = 2, .channels = C, .vocabulary = vocabulary, .context = context, .batch = batch}, 2);
}
Model neox(std::int64_t batch) {
  return nn::gpt_neox<Host, double>({.layers = 2, .heads = 2, .channels = C, .hidden = 12, .vocabulary = vocabulary,
                                     .context = context, .batch = batch}, 2);
}
using Make = Model (*)(std::int64_t);
const std::vector<Make>& models() {
  static const std::vector<Make> all{gpt, llama, bloom, neox};
  return all;
}

Numbers drawn(std::int64_t count, std::uint32_t stream) {
  Numbers values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(random_bits({stream, 0, 0, 0}, i) % 4096) / 4096 - 0.5;
  return values;
}

/// By name, so that models with other heads have the same.
Numbers drawn(const graph::Parameter& parameter) {
  std::uint32_t stream = 0;
  for (const char letter : parameter.name) stream = 31 * stream + static_cast<std::uint32_t>(letter);
  Numbers values = drawn(parameter.spec.shape.size(), stream);
  for (double& value : values) value = parameter.init.law == graph::Init::Law::ones ? 1 + value / 2 : value;
  return values;
}

struct Outcomes {
  double loss = 0;
  Numbers hidden;  // what the head reads, of the last cut
  std::map<std::string, Numbers> gradients;
};

/// `cut`: the node whose input is `hidden`.
Outcomes run(const Model& model, const std::string& cut, const Tokens& tokens, const Tokens& targets) {
  Host device({.threads = 2});
  const graph::Dag& dag = model.dag();
  const int head = dag.node(cut);
  GraphRunner<Host, double> runner(device, model, {head});
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) runner.set_parameter(static_cast<int>(p), drawn(dag.parameters[p]));
  runner.set(dag.inputs[0], tokens);
  runner.set(dag.inputs[1], targets);
  runner.forward();
  Outcomes result;
  result.hidden = runner.value(dag.node_at(head).inputs[0]);
  result.loss = runner.value(dag.loss)[0];
  runner.set_gradient(dag.loss, {1});
  runner.backward();
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    if (!dag.parameters[p].frozen) result.gradients[dag.parameters[p].name] = runner.parameter_gradient(static_cast<int>(p));
  }
  return result;
}

/// Texts of several lengths, with their labels behind them.
std::vector<data::TokenPair> texts() {
  std::vector<data::TokenPair> all;
  std::size_t i = 0;
  for (const std::size_t length : {3, 12, 1, 7, 4}) {
    data::TokenPair pair;
    for (std::size_t t = 0; t < length; ++t)
      pair.tokens.push_back(static_cast<std::int32_t>(random_bits({5, i, 0, 0}, t) % vocabulary));
    pair.prompt = length;
    pair.tokens.push_back(static_cast<std::int32_t>(i++ % classes));
    all.push_back(pair);
  }
  return all;
}

struct Rows {
  Tokens tokens, targets;
};
template <class Sampler>
Rows filled(const Sampler& sampler, std::int64_t count) {
  Rows rows;
  rows.tokens.resize(static_cast<std::size_t>(count * context));
  rows.targets.resize(rows.tokens.size());
  const std::vector<AnyView> inputs{{rows.tokens.data(), {count, context}, Element::int32},
                                    {rows.targets.data(), {count, context}, Element::int32}};
  sampler.fill_in_order(0, inputs);
  return rows;
}

TEST(ClassHead, has_the_loss_and_the_gradient_of_its_formula_at_the_last_tokens) {
  const std::vector<data::TokenPair> all = texts();
  const auto N = static_cast<std::int64_t>(all.size());
  const Rows rows = filled(data::PairSampler(all, context, 1), N);
  for (std::size_t m = 0; m < models().size(); ++m) {
    SCOPED_TRACE(m);
    const Model base = models()[m](N);
    const std::string language_head = base.dag().node_at(base.dag().tensor_at(base.dag().tensor("logits")).producer).name;
    // What the language model's head reads, whose weights are the same.
    const Numbers hidden = run(base, language_head, rows.tokens, rows.targets).hidden;
    const Model model = nn::with_class_head(base, {.classes = classes});
    const graph::Dag& dag = model.dag();
    EXPECT_EQ(dag.parameter_at(dag.parameter("score.weight")).spec.shape, (Shape{classes, C}));
    EXPECT_EQ(dag.tensor_at(dag.tensor("logits")).spec.shape, (Shape{N, context, classes}));
    const Numbers score = drawn(dag.parameter_at(dag.parameter("score.weight")));
    double loss = 0;
    Numbers gradient(score.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double* const x = hidden.data() + (i * context + all[i].prompt - 1) * C;
      Numbers shares(classes);
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        double logit = 0;
        for (std::size_t j = 0; j < C; ++j) logit += score[c * C + j] * x[j];
        sum += shares[c] = std::exp(logit);
      }
      const auto label = static_cast<std::size_t>(all[i].tokens.back());
      loss -= std::log(shares[label] / sum) / static_cast<double>(N);
      for (std::size_t c = 0; c < classes; ++c) {
        const double d = (shares[c] / sum - (c == label ? 1 : 0)) / static_cast<double>(N);
        for (std::size_t j = 0; j < C; ++j) gradient[c * C + j] += d * x[j];
      }
    }
    const Outcomes found = run(model, "score", rows.tokens, rows.targets);
    EXPECT_NEAR(found.loss, loss, 1e-13);
    for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(found.gradients.at("score.weight")[i], gradient[i], 1e-13);
    EXPECT_FALSE(found.gradients.contains("lm_head.weight"));
    // Of packed texts it is the same.
    const data::PackedPairSampler packed(all, context, 1);
    ASSERT_LT(packed.rows(), N);
    const Rows several = filled(packed, packed.rows());
    const Model of_rows = nn::with_packing(nn::with_class_head(models()[m](packed.rows()), {.classes = classes}));
    const Outcomes together = run(of_rows, "score", several.tokens, several.targets);
    EXPECT_NEAR(together.loss, loss, 1e-12);
    for (const auto& [name, values] : found.gradients) {
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(together.gradients.at(name)[i], values[i], 1e-12) << name;
    }
  }
}

TEST(ClassHead, is_trained_beside_adapters) {
  const Model model = nn::with_class_head(nn::with_lora(llama(2), {.rank = 2, .targets = {"q_proj"}}), {.classes = classes});
  for (const graph::Parameter& parameter : model.dag().parameters) {
    EXPECT_EQ(parameter.frozen, !nn::is_of_lora(parameter.name) && !nn::is_of_class_head(parameter.name)) << parameter.name;
  }
}

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(ClassHead, in_a_session_tells_classes_of_tokens_that_are_more_than_these) {
  const std::vector<data::TokenPair> all = texts();
  const auto N = static_cast<std::int64_t>(all.size());
  const Rows rows = filled(data::PairSampler(all, context, 1), N);
  for (std::size_t m = 0; m < models().size(); ++m) {
    SCOPED_TRACE(m);
    const Model model = nn::with_class_head(models()[m](N), {.classes = classes});
    Host host({.threads = 2});
    nn::Session<Host, double> session(host, model, {.positions = context});
    for (const graph::Parameter& parameter : model.dag().parameters)
      session.set_parameter(parameter.name, drawn(parameter));
    EXPECT_EQ(session.vocabulary(), static_cast<std::int64_t>(classes));
    EXPECT_GE(session.tokens(), vocabulary);
    double loss = 0;
    for (const data::TokenPair& text : all) {
      const int sequence = session.open();
      const nn::Logits logits = session.append({{sequence, std::span(text.tokens).first(text.prompt)}});
      loss -= nn::log_probability(logits.row(0), text.tokens.back()) / static_cast<double>(N);
      session.close(sequence);
    }
    EXPECT_NEAR(loss, run(model, "score", rows.tokens, rows.targets).loss, 1e-6);
    const int sequence = session.open();
    const Tokens outside{static_cast<std::int32_t>(session.tokens())};
    EXPECT_THAT(refusal_of([&] {
                  (void)session.append({{sequence, outside}});
                }),
                HasSubstr("tokens from 0 to " + std::to_string(session.tokens() - 1)));
  }
}

TEST(ClassHead, that_cannot_be_is_refused_by_name) {
  const auto refused = [](const Model& model, std::int64_t count) {
    return refusal_of([&] { (void)nn::with_class_head(model, {.classes = count}); });
  };
  EXPECT_THAT(refused(llama(1), 0), HasSubstr("classes is 0"));
  EXPECT_THAT(refused(llama(1), 1'000'001), HasSubstr("classes is 1000001"));
  EXPECT_THAT(refused(nn::with_prompts(llama(1), {.tokens = 2}), 2), HasSubstr("no nn::CrossEntropy"));
  EXPECT_THAT(refused(nn::with_lora(llama(1), {.rank = 2, .targets = {"lm_head"}}), 2), HasSubstr("no nn::CrossEntropy"));
  Model none(1);
  const int x = none.input("x", {{2, 3}, Element::float64});
  none.add("fc", nn::Linear{.features = 4}, {x});
  EXPECT_THAT(refused(none, 2), HasSubstr("no nn::CrossEntropy"));
}

TEST(ClassHead, is_in_the_adapters_file_by_the_names_of_peft) {
  const TemporaryFolder folder;
  const nn::Lora lora{.rank = 2, .alpha = 4, .targets = {"q_proj"}, .class_head = true};
  const Model model = nn::with_class_head(nn::with_adapter(llama(1), lora), {.classes = classes});
  const auto values = [&](const std::string& name) { return drawn(model.dag().parameter_at(model.dag().parameter(name))); };
  nn::write_adapter_config(folder.path(), lora, "base", false, model.dag());
  nn::write_adapter<double>(folder.path(), model.dag(), values);
  const io::Json json = io::read_json(folder.path() / "adapter_config.json");
  EXPECT_EQ(json.at("task_type"), "SEQ_CLS");
  EXPECT_EQ(json.at("modules_to_save"), io::Json::parse(R"(["classifier", "score"])"));
  const io::SafetensorsFile file(folder.path() / "adapter_model.safetensors");
  EXPECT_NE(file.find("base_model.model.score.weight"), nullptr);
  EXPECT_TRUE(std::get<nn::Lora>(nn::read_adapter_config(folder.path())).class_head);
  std::size_t count = 0;
  nn::read_adapter<double>(folder.path(), model.dag(), [&](std::string_view name, const Numbers& of) {
    EXPECT_EQ(of, values(std::string(name))) << name;
    ++count;
  });
  EXPECT_EQ(count, 5U);
  EXPECT_EQ(nn::read_adapter_classes(folder.path()), static_cast<std::int64_t>(classes));
  const auto refused = [&](const Model& other) {
    return refusal_of([&] { nn::read_adapter<double>(folder.path(), other.dag(), [](const auto&, const auto&) { ADD_FAILURE(); }); });
  };
  EXPECT_THAT(refused(nn::with_adapter(llama(1), lora)), HasSubstr("base_model.model.score.weight"));
  EXPECT_THAT(refused(nn::with_class_head(nn::with_adapter(llama(1), lora), {.classes = 4})), HasSubstr("(3, 8)"));
}

}  // namespace
}  // namespace reef::test
