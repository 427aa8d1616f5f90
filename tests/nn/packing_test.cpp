// Several samples in a row: operators and models that keep them apart.

#include <reef/nn/packing.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/data/packed_pairs.hpp>
#include <reef/device/host.hpp>
#include <reef/nn/bloom.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/lora.hpp>
#include <reef/nn/soft_prompt.hpp>

#include "../laws/operator.hpp"

namespace reef::test {

using device::Host;

/// Of whose tokens about half begin a sample, since "classes" is 2^32 - 1.
struct PackedAttentionCase {
  static std::vector<InputCase> inputs() { return {{"qkv", {2, 9, 24}}, {"tokens", {2, 9}, true}}; }
  static auto op() { return nn::Packed<nn::CausalAttention>{{.heads = 2}}; }
  static constexpr std::int32_t classes = -1;
  static constexpr double tolerance = 64;
  static constexpr bool stochastic = false;
};

struct PackedGroupedAttentionCase : PackedAttentionCase {
  static std::vector<InputCase> inputs() {
    return {{"q", {2, 7, 8}}, {"k", {2, 7, 4}}, {"v", {2, 7, 4}}, {"tokens", {2, 7}, true}};
  }
  static auto op() { return nn::Packed<nn::GroupedAttention>{{.heads = 4, .kv_heads = 2, .window = 3, .alibi = true}}; }
};

/// Whose backward reads no input, so that tokens are kept aside.
struct PackedRotaryCase : PackedAttentionCase {
  static std::vector<InputCase> inputs() { return {{"in", {2, 7, 12}}, {"tokens", {2, 7}, true}}; }
  static auto op() { return nn::Packed<nn::Rotary>{{.head_size = 6}}; }
};

struct PackedEmbeddingCase : PackedAttentionCase {
  static std::vector<InputCase> inputs() { return {{"tokens", {3, 5}, true}}; }
  static auto op() { return nn::Packed<nn::Embedding>{{.vocabulary = 7, .positions = 6, .channels = 70}}; }
  static constexpr std::int32_t classes = 7;
};

using PackedSubjects = testing::Types<Subject<Host, PackedAttentionCase>, Subject<Host, PackedGroupedAttentionCase>,
                                      Subject<Host, PackedRotaryCase>, Subject<Host, PackedEmbeddingCase>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Packing, OperatorLaws, PackedSubjects);

namespace {

using testing::HasSubstr;
using Model = graph::Graph<Host, double>;
using Numbers = std::vector<double>;
using Tokens = std::vector<std::int32_t>;
using Values = std::map<std::string, Numbers>;
constexpr std::int32_t vocabulary = 11;

Numbers drawn(std::int64_t count, std::uint32_t stream) {
  Numbers values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(random_bits({stream, 0, 0, 0}, i) % 4096) / 4096 - 0.5;
  return values;
}

/// Where each position's sample begins: the reference's own reading of the marks.
std::vector<std::size_t> begins(const Tokens& tokens, std::size_t T) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    result.push_back(i % T == 0 || tokens[i] < 0 ? i % T : result.back());
  return result;
}

/// Attention by its formula, with a mask over all of the row: position t sees s of the same sample, s <= t.
Numbers masked_attention(const Numbers& q, const Numbers& k, const Numbers& v, const Tokens& tokens, std::size_t T,
                         std::size_t H, std::size_t K, std::size_t D) {
  const std::vector<std::size_t> begin = begins(tokens, T);
  Numbers out(q.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    for (std::size_t h = 0; h < H; ++h) {
      const std::size_t g = h * K / H;
      Numbers weights(T);
      double sum = 0;
      for (std::size_t s = 0; s <= i % T; ++s) {
        const std::size_t j = i - i % T + s;
        if (begin[j] != begin[i]) continue;
        double score = 0;
        for (std::size_t d = 0; d < D; ++d) score += q[(i * H + h) * D + d] * k[(j * K + g) * D + d];
        sum += weights[s] = std::exp(score / std::sqrt(static_cast<double>(D)));
      }
      for (std::size_t s = 0; s <= i % T; ++s) {
        const std::size_t j = i - i % T + s;
        for (std::size_t d = 0; d < D; ++d) out[(i * H + h) * D + d] += weights[s] / sum * v[(j * K + g) * D + d];
      }
    }
  }
  return out;
}

Numbers output_of(const auto& op, const std::vector<std::pair<Shape, Numbers>>& inputs, const Tokens& tokens, Shape rows,
                  const Values& parameters = {}) {
  Host device({.threads = 2});
  Model g(2);
  std::vector<int> refs;
  for (const auto& [shape, values] : inputs)
    refs.push_back(g.input("in" + std::to_string(refs.size()), {shape, Element::float64}, true));
  refs.push_back(g.input("tokens", {rows, Element::int32}));
  const int out = g.add("op", op, refs)[0];
  GraphRunner<Host, double> runner(device, g);
  for (std::size_t i = 0; i < inputs.size(); ++i) runner.set(refs[i], inputs[i].second);
  runner.set(refs.back(), tokens);
  for (const auto& [name, values] : parameters) runner.set_parameter(g.dag().parameter(name), values);
  runner.forward();
  return runner.value(out);
}

void expect_near(const Numbers& found, const Numbers& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], tolerance) << i;
}

/// Of lengths that are and are not multiples of the kernel's tiles.
Tokens long_rows(std::int64_t T) {
  Tokens tokens(static_cast<std::size_t>(2 * T), 3);
  for (const std::int64_t begin : {std::int64_t{1}, std::int64_t{66}, std::int64_t{67}, std::int64_t{131}, T + 64, T + 128})
    tokens[static_cast<std::size_t>(begin)] = ~3;
  return tokens;
}

TEST(Packing, attention_is_that_of_a_mask_by_sample) {
  constexpr std::int64_t T = 150;
  const Tokens tokens = long_rows(T);
  const Numbers q = drawn(2 * T * 8, 1), k = drawn(2 * T * 4, 2), v = drawn(2 * T * 4, 3);
  const nn::Packed<nn::GroupedAttention> op{{.heads = 4, .kv_heads = 2}};
  expect_near(output_of(op, {{{2, T, 8}, q}, {{2, T, 4}, k}, {{2, T, 4}, v}}, tokens, {2, T}),
              masked_attention(q, k, v, tokens, T, 4, 2, 2), 1e-13);
}

TEST(Packing, positions_begin_at_0_in_each_sample) {
  constexpr std::int64_t T = 150;
  const Tokens tokens = long_rows(T);
  const std::vector<std::size_t> begin = begins(tokens, T);
  const Numbers in = drawn(2 * T * 4, 1);
  Numbers turned(in.size());
  const Numbers wte = drawn(7 * 4, 4), wpe = drawn(T * 4, 5);
  Numbers embedded(in.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::size_t t = i % static_cast<std::size_t>(T) - begin[i];
    for (std::size_t c = 0; c < 2; ++c) {
      const double angle = static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(c) / 2);
      const double a = in[i * 4 + c], b = in[i * 4 + c + 2];
      turned[i * 4 + c] = a * std::cos(angle) - b * std::sin(angle);
      turned[i * 4 + c + 2] = b * std::cos(angle) + a * std::sin(angle);
    }
    for (std::size_t c = 0; c < 4; ++c) embedded[i * 4 + c] = wte[3 * 4 + c] + wpe[t * 4 + c];
  }
  expect_near(output_of(nn::Packed<nn::Rotary>{{.head_size = 4}}, {{{2, T, 4}, in}}, tokens, {2, T}), turned, 1e-12);
  expect_near(output_of(nn::Packed<nn::Embedding>{{.vocabulary = 7, .positions = T, .channels = 4}}, {}, tokens, {2, T},
                        {{"op.wte.weight", wte}, {"op.wpe.weight", wpe}}),
              embedded, 0);
}

constexpr std::int64_t context = 40;

Model gpt(std::int64_t batch, std::int64_t T = context) {
  return nn::gpt<Host, double>({.layers = 2, .heads = 2, .channels = 8, .vocabulary = vocabulary, .context = context,
                                .batch = batch, .sequence = T}, 2);
}
Model llama(std::int64_t batch, std::int64_t T = context) {
  return nn::llama<Host, double>({.layers = 2, .heads = 4, .kv_heads = 2, .channels = 16, .hidden = 12, .vocabulary = vocabulary,
                                  .context = context, .batch = batch, .sequence = T}, 2);
}
Model bloom(std::int64_t batch, std::int64_t T = context) {
  return nn::bloom<Host, double>({.layers = 2, .heads = 2, .channels = 8, .vocabulary = vocabulary, .context = context,
                                  .batch = batch, .sequence = T}, 2);
}
Model neox(std::int64_t batch, std::int64_t T = context) {
  return nn::gpt_neox<Host, double>({.layers = 2, .heads = 2, .channels = 8, .hidden = 12, .vocabulary = vocabulary,
                                     .context = context, .batch = batch, .sequence = T}, 2);
}
using Make = Model (*)(std::int64_t, std::int64_t);
const std::vector<Make>& models() {
  static const std::vector<Make> all{gpt, llama, bloom, neox};
  return all;
}

struct Outcomes {
  double loss = 0;  // summed over targets that count
  Numbers logits;
  Values gradients;
};

Outcomes run(const Model& model, const Tokens& tokens, const Tokens& targets) {
  Host device({.threads = 2});
  GraphRunner<Host, double> runner(device, model);
  const graph::Dag& dag = model.dag();
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    Numbers values = drawn(dag.parameters[p].spec.shape.size(), static_cast<std::uint32_t>(p));
    const bool ones = dag.parameters[p].init.law == graph::Init::Law::ones;
    for (double& value : values) value = ones ? 1 + value / 2 : value;
    runner.set_parameter(static_cast<int>(p), values);
  }
  runner.set(dag.inputs[0], tokens);
  runner.set(dag.inputs[1], targets);
  runner.forward();
  double counted = 0;
  for (const std::int32_t target : targets) counted += target >= 0 ? 1 : 0;
  runner.set_gradient(dag.loss, {counted});
  runner.backward();
  Outcomes result;
  result.loss = counted * runner.value(dag.loss)[0];
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    if (!dag.parameters[p].frozen) result.gradients[dag.parameters[p].name] = runner.parameter_gradient(static_cast<int>(p));
  }
  return result;
}

std::vector<data::TokenPair> pairs() {
  std::vector<data::TokenPair> all;
  std::size_t i = 0;
  for (const std::size_t length : {5, 17, 2, 41, 9, 22, 3, 60, 12, 18}) {
    data::TokenPair pair;
    for (std::size_t t = 0; t < length; ++t)
      pair.tokens.push_back(static_cast<std::int32_t>(random_bits({77, i, 0, 0}, t) % vocabulary));
    pair.prompt = length / 2;
    all.push_back(pair);
    ++i;
  }
  return all;
}

struct Texts {
  Tokens tokens, targets;
};
template <class Sampler>
Texts filled(const Sampler& sampler, std::int64_t rows) {
  Texts texts;
  texts.tokens.resize(static_cast<std::size_t>(rows * context));
  texts.targets.resize(texts.tokens.size());
  const std::vector<AnyView> inputs{{texts.tokens.data(), {rows, context}, Element::int32},
                                    {texts.targets.data(), {rows, context}, Element::int32}};
  sampler.fill_in_order(0, inputs);
  return texts;
}

TEST(Packing, loss_and_gradients_are_those_of_each_sample_in_a_row_of_its_own) {
  const std::vector<data::TokenPair> all = pairs();
  const data::PackedPairSampler packed(all, context, 1);
  ASSERT_LT(packed.rows(), static_cast<std::int64_t>(all.size()));
  const Texts rows = filled(packed, packed.rows());
  const Texts alone = filled(data::PairSampler(all, context, 1), static_cast<std::int64_t>(all.size()));
  for (std::size_t m = 0; m < models().size(); ++m) {
    SCOPED_TRACE(m);
    for (const bool adapts : {false, true}) {
      const auto made = [&](std::int64_t batch) {
        const Model model = models()[m](batch, context);
        return adapts ? nn::with_lora(model, {.rank = 2, .targets = {"all-linear"}}) : model;
      };
      const Outcomes wanted = run(made(static_cast<std::int64_t>(all.size())), alone.tokens, alone.targets);
      const Outcomes found = run(nn::with_packing(made(packed.rows())), rows.tokens, rows.targets);
      EXPECT_NEAR(found.loss, wanted.loss, 1e-11 * wanted.loss);
      ASSERT_EQ(found.gradients.size(), wanted.gradients.size());
      for (const auto& [name, gradient] : wanted.gradients) {
        SCOPED_TRACE(name);
        expect_near(found.gradients.at(name), gradient, 1e-11);
      }
      // Without the packing samples see each other, and it is another loss.
      Texts unmarked = rows;
      for (std::int32_t& token : unmarked.tokens) token = token < 0 ? ~token : token;
      EXPECT_GT(std::abs(run(made(packed.rows()), unmarked.tokens, unmarked.targets).loss - wanted.loss), 1e-6 * wanted.loss);
    }
  }
}

TEST(Packing, has_the_bits_of_the_model_where_no_sample_begins_within_a_row) {
  for (std::size_t m = 0; m < models().size(); ++m) {
    SCOPED_TRACE(m);
    const Model model = models()[m](3, context);
    Texts texts;
    for (std::int64_t i = 0; i < 3 * context; ++i) {
      texts.tokens.push_back(static_cast<std::int32_t>(i * 7 % vocabulary));
      texts.targets.push_back(static_cast<std::int32_t>(i * 5 % vocabulary));
    }
    const Outcomes wanted = run(model, texts.tokens, texts.targets);
    const Outcomes found = run(nn::with_packing(model), texts.tokens, texts.targets);
    EXPECT_EQ(found.loss, wanted.loss);
    EXPECT_EQ(found.gradients, wanted.gradients);
  }
}

TEST(Packing, keeps_names_and_what_is_frozen) {
  const Model model = nn::with_lora(llama(2), {.rank = 2});
  const Model packed = nn::with_packing(model);
  ASSERT_EQ(packed.dag().node_count(), model.dag().node_count());
  for (int n = 0; n < model.dag().node_count(); ++n) EXPECT_EQ(packed.dag().node_at(n).name, model.dag().node_at(n).name);
  ASSERT_EQ(packed.dag().parameters.size(), model.dag().parameters.size());
  for (std::size_t p = 0; p < model.dag().parameters.size(); ++p) {
    EXPECT_EQ(packed.dag().parameters[p].name, model.dag().parameters[p].name);
    EXPECT_EQ(packed.dag().parameters[p].frozen, model.dag().parameters[p].frozen);
    EXPECT_EQ(packed.dag().parameters[p].init.law, model.dag().parameters[p].init.law);
  }
  EXPECT_EQ(packed.dag().tensor("logits"), model.dag().tensor("logits"));
}

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Packing, that_cannot_be_is_refused_by_name) {
  const auto refused = [](const Model& model) { return refusal_of([&] { (void)nn::with_packing(model); }); };
  EXPECT_THAT(refused(nn::with_prompts(llama(1), {.tokens = 2})), HasSubstr("the model has 0 embeddings"));
  EXPECT_THAT(refused(nn::with_packing(llama(1))), HasSubstr("the model has 0 embeddings"));
  const nn::GptConfig dropping{.layers = 1, .heads = 1, .channels = 4, .vocabulary = 5, .context = 6, .dropout = 0.5F};
  EXPECT_THAT(refused(nn::gpt<Host, double>(dropping, 1)), HasSubstr("'transformer.h.0.attn' has dropout of 0.5"));
  Model other(1);
  const int tokens = other.input("tokens", {{2, 4}, Element::int32});
  const int x = other.add("e", nn::TokenEmbedding{.vocabulary = 5, .channels = 3}, {tokens})[0];
  other.add("odd", nn::Packed<nn::Rotary>{{.head_size = 3, .turned = 2}}, {x, tokens});
  EXPECT_THAT(refused(other), HasSubstr("'odd' of kind PackedRotary may mix positions"));
  const int others = other.input("others", {{2, 5}, Element::int32});
  EXPECT_THAT(refusal_of([&] { other.add("even", nn::Packed<nn::Rotary>{{.head_size = 3, .turned = 2}}, {x, others}); }),
              HasSubstr("of the B and T of the tokens, (2, 5)"));
  // A model without packing refuses rows that are packed.
  EXPECT_THAT(refusal_of([] { run(gpt(1), Tokens(context, ~2), Tokens(context, 1)); }), HasSubstr("token -3"));
}

}  // namespace
}  // namespace reef::test
