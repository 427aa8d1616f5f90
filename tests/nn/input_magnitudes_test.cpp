// Magnitudes of the inputs of matrices: they are those of the texts that ran, and choose better outliers of int8 than
// the weights alone where few inputs are large.

#include <reef/nn/input_magnitudes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/device/host.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/lora.hpp>
#include <reef/nn/session.hpp>

#include "../laws/graph_runner.hpp"

namespace reef::test {
namespace {

using device::Host;
using graph::WeightForm;
using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;
using Model = graph::Graph<Host, float>;
using Served = nn::Session<Host, float>;

constexpr std::int64_t C = 64;
constexpr std::int64_t V = 50;

Model llama(std::int64_t sequence = 4) {
  return nn::llama<Host, float>({.layers = 2, .heads = 4, .kv_heads = 2, .channels = C, .hidden = 96, .vocabulary = V,
                                 .context = 40, .sequence = sequence, .tied = false}, 2);
}

/// Weights by name. As in trained models whose activations have outliers, the norms let the channels 11 and 40 through
/// 50 times as large as the others, and the matrices behind them multiply these with numbers that are as much smaller.
std::vector<float> values_of(const graph::Parameter& parameter) {
  std::uint32_t stream = 0;
  for (const char letter : parameter.name) stream = 31 * stream + static_cast<std::uint32_t>(letter);
  std::vector<float> values(static_cast<std::size_t>(parameter.spec.shape.size()));
  const bool is_norm = parameter.init.law == graph::Init::Law::ones;
  bool is_behind_norm = false;
  for (const char* const name : {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head"})
    is_behind_norm = is_behind_norm || parameter.name.ends_with(std::string(name) + ".weight");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_large = i % C == 11 || i % C == 40;
    values[i] = static_cast<float>(random_bits({stream, 0, 0, 0}, i) % 4096) / 4096 - 0.5F;
    if (is_norm) values[i] = is_large ? 50 : 1 + values[i] / 4;
    if (is_behind_norm && is_large) values[i] /= 50;
  }
  return values;
}

void set_all(Served& session, const Model& model, const nn::InputMagnitudes* magnitudes = nullptr) {
  for (const graph::Parameter& parameter : model.dag().parameters) {
    session.set_parameter(parameter.name, values_of(parameter),
                          magnitudes == nullptr ? std::span<const float>() : magnitudes->of(parameter.name));
  }
}

Tokens text(std::uint32_t seed, std::size_t length) {
  Tokens tokens;
  for (std::size_t i = 0; i < length; ++i) tokens.push_back(static_cast<std::int32_t>(random_bits({seed, 0, 0, 0}, i) % V));
  return tokens;
}

std::vector<float> logits_of(Served& session, const Tokens& tokens) {
  const int sequence = session.open();
  const nn::Logits logits = session.append({{sequence, tokens, true}});
  std::vector<float> values(logits.values.begin(), logits.values.end());
  session.close(sequence);
  return values;
}

/// The magnitudes that a session in this form finds in some texts.
nn::InputMagnitudes calibrated(const Model& model, const std::vector<Tokens>& texts, nn::SessionOptions options = {}) {
  nn::InputMagnitudes magnitudes;
  Host host({.threads = 2});
  options.positions = 40;
  Served session(host, nn::with_input_magnitudes(model, magnitudes), options);
  set_all(session, model);
  for (const Tokens& tokens : texts) (void)logits_of(session, tokens);
  return magnitudes;
}

TEST(InputMagnitudes, are_the_largest_of_each_column_that_a_forward_reads) {
  const Model model = llama(12);
  const Tokens tokens = text(1, 12);
  const nn::InputMagnitudes found = calibrated(model, {tokens});
  const graph::Dag& dag = model.dag();
  std::size_t matrices = 0;
  for (int n = 0; n < dag.node_count(); ++n) {
    if (model.operator_as<nn::Linear>(n) == nullptr) continue;
    Host host({.threads = 1});
    GraphRunner<Host, float> runner(host, model, {n});
    for (std::size_t p = 0; p < dag.parameters.size(); ++p)
      runner.set_parameter(static_cast<int>(p), values_of(dag.parameters[p]));
    runner.set(dag.inputs[0], tokens);
    runner.set(dag.inputs[1], Tokens(12, 0));
    runner.forward();
    const int input = dag.node_at(n).inputs[0];
    const std::vector<float> in = runner.value(input);
    const auto K = static_cast<std::size_t>(dag.tensor_at(input).spec.shape.last());
    const std::string& name = dag.parameter_at(dag.use_at(dag.node_at(n).uses[0]).parameter).name;
    ASSERT_EQ(found.of(name).size(), K) << name;
    float most = 0;
    for (const float x : in) most = std::max(most, std::abs(x));
    for (std::size_t k = 0; k < K; ++k) {
      float largest = 0;
      for (std::size_t i = k; i < in.size(); i += K) largest = std::max(largest, std::abs(in[i]));
      EXPECT_NEAR(found.of(name)[k], largest, 1e-5F * most) << name << ", input " << k;
    }
    ++matrices;
  }
  EXPECT_EQ(matrices, 2U * 7 + 1);
  EXPECT_TRUE(found.of("model.norm.weight").empty());
  EXPECT_TRUE(found.of("none").empty());
}

TEST(InputMagnitudes, have_the_same_bits_in_any_chunks_order_and_batch_and_leave_the_models_as_they_are) {
  const Model model = llama();
  const Tokens one = text(1, 30), other = text(2, 17);
  const nn::InputMagnitudes whole = calibrated(model, {one, other});
  const nn::InputMagnitudes chunks = calibrated(model, {other, one}, {.rows = 5});
  nn::InputMagnitudes beside;
  Host host({.threads = 1});
  Served session(host, nn::with_input_magnitudes(model, beside), {.positions = 40, .sequences = 2});
  set_all(session, model);
  const int first = session.open(), second = session.open();
  (void)session.append({{first, one}, {second, other}});
  for (const graph::Parameter& parameter : model.dag().parameters) {
    const auto all = whole.of(parameter.name);
    EXPECT_TRUE(std::ranges::equal(chunks.of(parameter.name), all)) << parameter.name;
    EXPECT_TRUE(std::ranges::equal(beside.of(parameter.name), all)) << parameter.name;
  }
  Served plain(host, model, {.positions = 40});
  set_all(plain, model);
  session.close(first);
  const int again = session.open();
  const nn::Logits recorded = session.append({{again, Tokens(one.begin(), one.begin() + 5), true}});
  EXPECT_EQ(std::vector<float>(recorded.values.begin(), recorded.values.end()),
            logits_of(plain, Tokens(one.begin(), one.begin() + 5)));
}

// Two channels of 64 are 50 times as large as the others, and have small weights, of which int8 keeps few bits: by the
// weights others are the outliers, by the magnitudes these. Relative errors of the logits were 0.221 and 0.036.
TEST(InputMagnitudes, halve_at_least_the_error_of_int8_where_few_inputs_are_large) {
  const Model model = llama();
  const nn::InputMagnitudes magnitudes = calibrated(model, {text(1, 30), text(2, 40)});
  const nn::InputMagnitudes rounded = calibrated(model, {text(1, 30), text(2, 40)}, {.weights = WeightForm::bf16});
  Host host({.threads = 2});
  const Tokens other = text(3, 40);
  const auto logits = [&](const nn::SessionOptions& options, const nn::InputMagnitudes* by) {
    Served session(host, model, options);
    set_all(session, model, by);
    return logits_of(session, other);
  };
  const std::vector<float> wanted = logits({.positions = 40}, nullptr);
  const auto error_of = [&](std::int64_t outliers, const nn::InputMagnitudes* by) {
    const auto got = logits({.positions = 40, .weights = WeightForm::int8, .outliers = outliers}, by);
    double off = 0, all = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      off += std::pow(static_cast<double>(got[i]) - static_cast<double>(wanted[i]), 2);
      all += std::pow(static_cast<double>(wanted[i]), 2);
    }
    return std::sqrt(off / all);
  };
  const double none = error_of(0, nullptr);
  const double by_weights = error_of(8, nullptr);
  const double by_magnitudes = error_of(8, &magnitudes);
  RecordProperty("relative_error_without_outliers", std::to_string(none));
  RecordProperty("relative_error_by_weights", std::to_string(by_weights));
  RecordProperty("relative_error_by_magnitudes", std::to_string(by_magnitudes));
  EXPECT_GT(by_magnitudes, 0);
  EXPECT_LT(by_magnitudes, by_weights / 2);
  EXPECT_LT(by_magnitudes, none / 2);
  EXPECT_EQ(error_of(8, &rounded), by_magnitudes) << "the inputs that magnitudes in bf16 choose are the same";
}

TEST(InputMagnitudes, are_those_of_adapted_matrices_and_of_a_head_that_is_the_table_too) {
  const Model model = nn::with_lora(
      nn::llama<Host, float>({.layers = 1, .heads = 2, .kv_heads = 2, .channels = 16, .hidden = 24, .vocabulary = V,
                              .context = 40, .sequence = 4}, 1), {.rank = 2, .targets = {"q_proj"}});
  const nn::InputMagnitudes found = calibrated(model, {text(1, 9)});
  EXPECT_EQ(found.of("model.layers.0.self_attn.q_proj.weight").size(), 16U);
  const auto of_table = found.of("model.embed_tokens.weight");
  ASSERT_EQ(of_table.size(), 16U);
  EXPECT_GT(*std::max_element(of_table.begin(), of_table.end()), 0);
  EXPECT_TRUE(found.of("model.layers.0.self_attn.q_proj.lora_A.weight").empty());
  const Model gpt = nn::gpt<Host, float>({.layers = 1, .heads = 2, .channels = 16, .vocabulary = V, .context = 40, .sequence = 4}, 1);
  const nn::InputMagnitudes of_gpt = calibrated(gpt, {text(1, 9)});
  EXPECT_EQ(of_gpt.of("transformer.h.0.mlp.c_proj.weight").size(), 64U);
}

TEST(InputMagnitudes, of_what_is_not_a_number_are_infinite_and_of_another_number_of_inputs_refused) {
  const Model model = llama();
  nn::InputMagnitudes magnitudes;
  Host host({.threads = 1});
  Served session(host, nn::with_input_magnitudes(model, magnitudes), {.positions = 40});
  set_all(session, model);
  std::vector<float> table = values_of(model.dag().parameter_at(model.dag().parameter("model.embed_tokens.weight")));
  table[3 * C + 5] = std::numeric_limits<float>::quiet_NaN();
  session.set_parameter("model.embed_tokens.weight", table);
  (void)logits_of(session, {3});
  EXPECT_EQ(magnitudes.of("model.layers.0.self_attn.q_proj.weight")[5], std::numeric_limits<float>::infinity());

  Served small(host, model, {.positions = 40, .weights = WeightForm::int8, .outliers = 8});
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const std::vector<float> values = values_of(model.dag().parameter_at(model.dag().parameter(name)));
  for (const std::size_t count : {C - 1, C + 1}) {
    try {
      small.set_parameter(name, values, std::vector<float>(count));
      ADD_FAILURE() << count << " magnitudes were taken";
    } catch (const ShapeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a matrix of 64 inputs is given the magnitudes of " + std::to_string(count)));
    }
  }
  small.set_parameter(name, values, magnitudes.of(name));
}

}  // namespace
}  // namespace reef::test
