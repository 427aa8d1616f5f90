// A sequence's logits depend on its tokens and the weights alone: not on chunks, batches, forks, truncations or threads.

#include <reef/nn/session.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/int8_rows.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/device/host.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/nn/bloom.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/lora.hpp>
#include <reef/nn/soft_prompt.hpp>

#include "../laws/graph_runner.hpp"
#include "../support/gpt_config.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using graph::StateForm;
using graph::WeightForm;
using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;
using Rows = std::vector<std::vector<float>>;

template <real T>
graph::Graph<Host, T> gpt_model() {
  nn::GptConfig config = small_config();
  config.batch = 1;
  config.context = 300;
  config.sequence = 8;
  return nn::gpt<Host, T>(config, 1);
}

/// Of grouped heads, a window on the second layer, normalised heads, biases, a tied head.
template <real T>
graph::Graph<Host, T> llama_model() {
  nn::LlamaConfig config;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.channels = 24;
  config.hidden = 40;
  config.vocabulary = 37;
  config.context = 300;
  config.batch = 1;
  config.sequence = 8;
  config.head_size = 10;
  config.window = 70;
  config.window_from = 1;
  config.norm_heads = true;
  config.query_bias = true;
  config.tied = true;
  return nn::llama<Host, T>(config, 1);
}

/// Of three heads, whose slopes are of two sequences, and a tied head.
template <real T>
graph::Graph<Host, T> bloom_model() {
  return nn::bloom<Host, T>({.layers = 2, .heads = 3, .channels = 24, .vocabulary = 37, .context = 300, .sequence = 8}, 1);
}

/// Of heads that are turned in part.
template <real T>
graph::Graph<Host, T> neox_model() {
  nn::GptNeoxConfig config{.layers = 2, .heads = 3, .channels = 30, .hidden = 40, .vocabulary = 37, .context = 300};
  config.sequence = 8;
  config.turned = 4;
  return nn::gpt_neox<Host, T>(config, 1);
}

/// With adapters, of which the bits are those beside the packed weights.
template <real T>
graph::Graph<Host, T> adapted_model() {
  return nn::with_lora(llama_model<T>(), {.rank = 3, .alpha = 5, .targets = {"q_proj", "down_proj"}});
}

/// With soft prompts, whose rows take the place of tokens' vectors.
template <real T>
graph::Graph<Host, T> prompted_model(const graph::Graph<Host, T>& model) {
  return nn::with_prompts(model, {.tokens = 5});
}

/// A session of a model with drawn weights.
template <real T>
class Served {
public:
  Served(const graph::Graph<Host, T>& model, nn::SessionOptions options, int threads = 2)
      : host_({.threads = threads}), session_(host_, model, options) {
    for (const auto& [id, values] : Point<sum_t<T>>::make(model.dag(), 37).parameters) {
      session_.set_parameter(model.dag().parameter_at(id).name, values);
    }
  }
  nn::Session<Host, T>& operator*() { return session_; }
  nn::Session<Host, T>* operator->() { return &session_; }

private:
  Host host_;
  nn::Session<Host, T> session_;
};

Rows rows_of(const nn::Logits& logits) {
  Rows rows;
  for (std::int64_t i = 0; i < logits.rows(); ++i) rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  return rows;
}

Tokens drawn_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (auto& token : tokens) token = static_cast<std::int32_t>(random() % 37);
  return tokens;
}

std::span<const std::int32_t> part(const Tokens& tokens, std::int64_t begin, std::int64_t end) {
  return std::span(tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

/// Logits behind each token of a sequence, a token at a time.
template <class Session>
Rows one_by_one(Session& session, const Tokens& tokens) {
  const int sequence = session.open();
  Rows rows;
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
    rows.push_back(rows_of(session.append({{sequence, part(tokens, i, i + 1)}})).at(0));
  }
  session.close(sequence);
  return rows;
}

template <real T>
class SessionLaws : public testing::Test {
protected:
  static std::vector<graph::Graph<Host, T>> models() {
    return {gpt_model<T>(),   llama_model<T>(), adapted_model<T>(), prompted_model(gpt_model<T>()), prompted_model(llama_model<T>()),
            bloom_model<T>(), neox_model<T>()};
  }
  static std::vector<WeightForm> forms() {
    return {WeightForm::as_given, WeightForm::bf16, WeightForm::int8, WeightForm::blockwise8, WeightForm::nf4};
  }

  struct InForms {
    graph::Graph<Host, T> model;
    WeightForm weights;
    StateForm states;
  };
  /// Each model once as it is given, and once with a form of its weights and one of its states, so that over all models
  /// each form and each of the narrow states occurs.
  static std::vector<InForms> drawn_forms() {
    constexpr StateForm all_states[] = {StateForm::int8, StateForm::bf16, StateForm::as_given};
    std::vector<InForms> drawn;
    const auto all_weights = forms();
    for (auto& model : models()) {
      const std::size_t i = drawn.size() / 2;
      drawn.push_back({model, WeightForm::as_given, StateForm::as_given});
      drawn.push_back({std::move(model), all_weights[1 + i % 4], all_states[i % 3]});
    }
    return drawn;
  }
};
using Types = testing::Types<float, Bfloat16>;
TYPED_TEST_SUITE(SessionLaws, Types);

TYPED_TEST(SessionLaws, a_sequence_has_the_same_bits_in_any_chunks) {
  const Tokens tokens = drawn_tokens(150, 1);
  for (const auto& model : this->models()) {
    for (const WeightForm form : this->forms()) {
      Served<TypeParam> served(model, {.positions = 150, .rows = 64, .weights = form});
      const Rows wanted = one_by_one(*served, tokens);
      std::mt19937 random(7);
      for (int draw = 0; draw < 3; ++draw) {
        const int sequence = served->open();
        for (std::int64_t begin = 0; begin < std::ssize(tokens);) {
          const std::int64_t end = (std::min)(std::ssize(tokens), begin + 1 + static_cast<std::int64_t>(random() % 90));
          const Rows found = rows_of(served->append({{sequence, part(tokens, begin, end), true}}));
          for (std::int64_t i = begin; i < end; ++i) {
            ASSERT_EQ(found.at(static_cast<std::size_t>(i - begin)), wanted.at(static_cast<std::size_t>(i)))
                << "token " << i << " of chunk [" << begin << ", " << end << ")";
          }
          begin = end;
        }
        served->close(sequence);
      }
    }
  }
}

TYPED_TEST(SessionLaws, a_sequence_has_the_same_bits_beside_others_and_on_more_threads) {
  for (const auto& [model, weights, states] : this->drawn_forms()) {
    SCOPED_TRACE(testing::Message() << "weights " << static_cast<int>(weights) << ", states " << static_cast<int>(states));
    Served<TypeParam> alone(model, {.positions = 100, .rows = 5, .weights = weights, .states = states}, 1);
    Served<TypeParam> together(model, {.positions = 100, .sequences = 6, .rows = 23, .weights = weights, .states = states}, 3);
    std::mt19937 random(11);
    std::map<int, Tokens> texts;
    for (int i = 0; i < 5; ++i) texts[together->open()] = drawn_tokens(20 + random() % 80, 100 + static_cast<unsigned>(i));
    std::map<int, Rows> wanted;
    for (const auto& [sequence, text] : texts) wanted[sequence] = one_by_one(*alone, text);
    std::map<int, std::int64_t> read;
    while (true) {
      std::vector<nn::Append> appends;
      for (const auto& [sequence, text] : texts) {
        const std::int64_t begin = read[sequence];
        const std::int64_t end = (std::min)(std::ssize(text), begin + static_cast<std::int64_t>(random() % 9));
        if (begin < end) appends.push_back({sequence, part(text, begin, end)});
      }
      if (appends.empty()) {
        if (std::all_of(texts.begin(), texts.end(), [&](const auto& text) { return read[text.first] == std::ssize(text.second); })) break;
        continue;
      }
      std::shuffle(appends.begin(), appends.end(), random);
      const Rows found = rows_of(together->append(appends));
      ASSERT_EQ(found.size(), appends.size());
      for (std::size_t i = 0; i < appends.size(); ++i) {
        std::int64_t& length = read[appends[i].sequence];
        length += std::ssize(appends[i].tokens);
        ASSERT_EQ(found[i], wanted[appends[i].sequence][static_cast<std::size_t>(length - 1)]);
        ASSERT_EQ(together->length(appends[i].sequence), length);
      }
    }
  }
}

TYPED_TEST(SessionLaws, forks_and_truncated_sequences_have_the_bits_of_new_ones) {
  for (const auto& [model, weights, states] : this->drawn_forms()) {
    SCOPED_TRACE(testing::Message() << "weights " << static_cast<int>(weights) << ", states " << static_cast<int>(states));
    Served<TypeParam> served(model, {.positions = 200, .sequences = 4, .rows = 50, .weights = weights, .states = states});
    const std::int64_t all_free = served->free_positions();
    const Tokens text = drawn_tokens(130, 3);
    const Tokens other = drawn_tokens(40, 4);
    for (const std::int64_t length : {0, 1, 63, 64, 65, 100, 128, 130}) {
      Tokens joined(text.begin(), text.begin() + length);
      joined.insert(joined.end(), other.begin(), other.end());
      const Rows wanted = one_by_one(*served, joined);
      const Rows wanted_text = one_by_one(*served, text);

      const int sequence = served->open();
      served->append({{sequence, text}});
      const int fork = served->fork(sequence);
      served->truncate(fork, length);
      EXPECT_EQ(served->length(fork), length);
      EXPECT_EQ(rows_of(served->append({{fork, other}})).at(0), wanted.back());
      // The first of the two goes on as if there were no fork.
      served->truncate(sequence, 129);
      EXPECT_EQ(rows_of(served->append({{sequence, part(text, 129, 130)}})).at(0), wanted_text.back());
      served->close(sequence);
      EXPECT_EQ(served->length(fork), std::ssize(joined));
      served->close(fork);
      EXPECT_EQ(served->free_positions(), all_free);
    }
  }
}

TEST(Session, has_the_logits_of_the_whole_model) {
  for (const auto& narrow : {gpt_model<float>(), llama_model<float>(), adapted_model<float>(), bloom_model<float>(), neox_model<float>()}) {
    const auto model = narrow.serving(2);
    Served<float> served(model, {.positions = 8, .rows = 3});
    Host host({.threads = 2});
    const graph::Dag& dag = model.dag();
    const int logits = dag.tensor("logits");
    GraphRunner<Host, float> runner(host, model, {}, dag.tensor_at(logits).producer + 1);
    Point<float>::make(dag, 37).apply(runner);
    const Tokens tokens = drawn_tokens(8, 5);
    runner.set(dag.tensor("tokens"), tokens);
    runner.forward({}, false);
    std::vector<float> found;
    for (const auto& row : one_by_one(*served, tokens)) found.insert(found.end(), row.begin(), row.end());
    EXPECT_LT(relative_error(found, runner.value(logits)), 1e-5);
  }
}

TEST(Session, has_the_same_bits_with_vectors_of_8_and_of_16) {
  if (device::best_instruction_set() < device::InstructionSet::avx512) GTEST_SKIP() << "this machine has no AVX-512";
  const auto before = device::instruction_set();
  for (const auto& model : {gpt_model<float>(), llama_model<float>(), adapted_model<float>(), bloom_model<float>(), neox_model<float>()}) {
    std::map<device::InstructionSet, Rows> rows;
    for (const auto set : {device::InstructionSet::avx2, device::InstructionSet::avx512}) {
      device::use_instruction_set(set);
      Served<float> served(model, {.positions = 100, .rows = 7});
      rows[set] = one_by_one(*served, drawn_tokens(100, 6));
    }
    EXPECT_EQ(rows[device::InstructionSet::avx2], rows[device::InstructionSet::avx512]);
  }
  device::use_instruction_set(before);
}

/// Of a matrix whose columns, each of K inputs, are rows of `rows` here: what a form decodes to.
std::vector<float> decoded_rows(const std::vector<float>& rows, std::int64_t K, WeightForm form) {
  std::vector<float> result = rows;
  const std::int64_t N = std::ssize(rows) / K;
  const std::int64_t padded = (K + 63) / 64 * 64;
  std::vector<float> blocks(static_cast<std::size_t>(N * padded));
  for (std::int64_t n = 0; n < N; ++n) std::copy_n(rows.begin() + n * K, K, blocks.begin() + n * padded);
  switch (form) {
    case WeightForm::as_given: return result;
    case WeightForm::bf16:
      for (float& value : result) value = static_cast<float>(Bfloat16(value));
      return result;
    case WeightForm::int8: {
      const codec::Int8Rows packed = codec::int8_rows(rows, K);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        result[i] = static_cast<float>(packed.values[i]) * (packed.largest[i / static_cast<std::size_t>(K)] / 127.0F);
      }
      return result;
    }
    case WeightForm::blockwise8: {
      std::vector<std::byte> message(codec::Blockwise8{64}.encoded_bytes(std::ssize(blocks)));
      codec::Blockwise8{64}.encode(blocks, message);
      codec::Blockwise8{64}.decode(message, blocks);
      break;
    }
    case WeightForm::nf4: {
      const codec::NormalFloat4 format{64, true};
      std::vector<std::byte> message(format.encoded_bytes(std::ssize(blocks)));
      format.encode(blocks, message);
      format.decode(message, blocks);
      break;
    }
  }
  for (std::int64_t n = 0; n < N; ++n) std::copy_n(blocks.begin() + n * padded, K, result.begin() + n * K);
  return result;
}

std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows) {
  const std::int64_t columns = std::ssize(matrix) / rows;
  std::vector<float> result(matrix.size());
  for (std::int64_t i = 0; i < std::ssize(matrix); ++i) {
    result[static_cast<std::size_t>(i % columns * rows + i / columns)] = matrix[static_cast<std::size_t>(i)];
  }
  return result;
}

TEST(Session, in_few_bits_has_the_bits_of_the_weights_that_they_decode_to) {
  for (const auto& model : {gpt_model<float>(), llama_model<float>()}) {
    const bool is_gpt = model.dag().parameters[0].name == "transformer.wte.weight";
    const Tokens tokens = drawn_tokens(70, 8);
    std::map<WeightForm, Rows> rows;
    for (const WeightForm form : {WeightForm::as_given, WeightForm::bf16, WeightForm::int8, WeightForm::blockwise8, WeightForm::nf4}) {
      Host host({.threads = 2});
      nn::Session<Host, float> narrow(host, model, {.positions = 70, .rows = 33, .weights = form});
      nn::Session<Host, float> wide(host, model, {.positions = 70, .rows = 33});
      for (const auto& [id, values] : Point<float>::make(model.dag(), 37).parameters) {
        const graph::Parameter& parameter = model.dag().parameter_at(id);
        const Shape& shape = parameter.spec.shape;
        narrow.set_parameter(parameter.name, values);
        const bool is_table = parameter.name == "transformer.wte.weight" || parameter.name == "model.embed_tokens.weight";
        if (!is_table && !parameter.linear) {
          wide.set_parameter(parameter.name, values);
        } else if (is_table || !is_gpt) {
          wide.set_parameter(parameter.name, decoded_rows(values, shape.last(), form));
        } else {
          wide.set_parameter(parameter.name, transposed(decoded_rows(transposed(values, shape[0]), shape[0], form), shape[1]));
        }
      }
      // A token at a time, and in tiles.
      rows[form] = one_by_one(narrow, tokens);
      EXPECT_EQ(rows[form], one_by_one(wide, tokens)) << static_cast<int>(form);
      const int sequence = narrow.open();
      EXPECT_EQ(rows_of(narrow.append({{sequence, tokens, true}})), rows[form]) << static_cast<int>(form);
    }
    EXPECT_NE(rows[WeightForm::nf4], rows[WeightForm::as_given]);
    EXPECT_NE(rows[WeightForm::int8], rows[WeightForm::blockwise8]);
  }
}

TEST(Session, holds_matrices_in_the_bits_of_their_form) {
  // Of 64 inputs and more, so that scales count as in large models.
  const nn::LlamaConfig config{.layers = 2, .heads = 4, .kv_heads = 2, .channels = 256, .hidden = 512, .vocabulary = 1024, .context = 64, .sequence = 1};
  const auto model = nn::llama<Host, float>(config, 1);
  const auto weights = static_cast<double>(model.dag().parameter_count());
  std::map<WeightForm, double> bits;
  for (const WeightForm form : {WeightForm::as_given, WeightForm::bf16, WeightForm::int8, WeightForm::blockwise8, WeightForm::nf4}) {
    Host host({.threads = 1});
    const nn::Session<Host, float> session(host, model, {.positions = 64, .rows = 1, .weights = form});
    for (const auto& [holder, bytes] : host.memory().holders) {
      if (holder == "weights") bits[form] = 8 * static_cast<double>(bytes) / weights;
    }
  }
  EXPECT_NEAR(bits[WeightForm::as_given], 32, 0.1);
  EXPECT_NEAR(bits[WeightForm::bf16], 16, 0.1);
  EXPECT_NEAR(bits[WeightForm::int8], 8.1, 0.1);
  EXPECT_NEAR(bits[WeightForm::blockwise8], 8.5, 0.1);
  EXPECT_NEAR(bits[WeightForm::nf4], 4.17, 0.1);
}

TYPED_TEST(SessionLaws, has_the_same_bits_in_any_chunks_where_int8_has_outliers) {
  const Tokens tokens = drawn_tokens(50, 12);
  for (const auto& model : this->models()) {
    Served<TypeParam> without(model, {.positions = 50, .rows = 23, .weights = WeightForm::int8});
    Served<TypeParam> with(model, {.positions = 50, .sequences = 2, .rows = 23, .weights = WeightForm::int8, .outliers = 8}, 1);
    const Rows wanted = one_by_one(*with, tokens);
    EXPECT_NE(one_by_one(*without, tokens), wanted);
    const int other = with->open();
    const int sequence = with->open();
    const auto logits = rows_of(with->append({{other, part(tokens, 0, 5)}, {sequence, tokens, true}}));
    ASSERT_EQ(logits.size(), wanted.size() + 1);
    EXPECT_EQ(Rows(logits.begin() + 1, logits.end()), wanted);
  }
}

TEST(Session, of_int8_in_which_all_inputs_are_outliers_has_the_bits_of_the_weights_as_they_are_given) {
  const auto model = llama_model<float>();
  const Tokens tokens = drawn_tokens(20, 13);
  Served<float> plain(model, {.positions = 20});
  Served<float> all(model, {.positions = 20, .weights = WeightForm::int8, .outliers = 256});
  EXPECT_EQ(one_by_one(*all, tokens), one_by_one(*plain, tokens));
}

TEST(Session, refuses_magnitudes_of_another_number_than_inputs_and_keeps_the_parameter) {
  const auto model = llama_model<float>();
  const Tokens tokens = drawn_tokens(9, 14);
  EXPECT_THROW(Served<float>(model, {.positions = 9, .outliers = 257}), OptionError);
  Served<float> served(model, {.positions = 9, .weights = WeightForm::int8, .outliers = 8});
  const Rows before = one_by_one(*served, tokens);
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const Shape& shape = model.dag().parameter_at(model.dag().parameter(name)).spec.shape;
  const std::vector<float> values(static_cast<std::size_t>(shape.size()), 0.25F);
  std::vector<float> magnitudes(static_cast<std::size_t>(shape.last()) + 1, 1.0F);
  EXPECT_THROW(served->set_parameter(name, values, magnitudes), ShapeError);
  EXPECT_EQ(one_by_one(*served, tokens), before);
  magnitudes.pop_back();
  served->set_parameter(name, values, magnitudes);
  EXPECT_NE(one_by_one(*served, tokens), before);
}

TEST(Session, refuses_what_cannot_be_and_leaves_sequences_as_they_were) {
  const auto model = gpt_model<float>();
  Served<float> served(model, {.positions = 70, .sequences = 2, .rows = 9});
  const int first = served->open();
  const int second = served->open();
  const Tokens text = drawn_tokens(70, 9);
  const Rows wanted = one_by_one(*served, text);
  served->append({{first, part(text, 0, 10)}});
  const auto refuses = [&](std::vector<nn::Append> appends, const char* why) {
    try {
      served->append(appends);
      ADD_FAILURE() << "nothing was thrown for: " << why;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
    EXPECT_EQ(served->length(first), 10);
    EXPECT_EQ(served->length(second), 0);
  };
  const Tokens outside{3, 37}, negative{-1}, none;
  refuses({{99, text}}, "sequence 99 is not open");
  refuses({{first, none}}, "is given no token");
  refuses({{second, text}, {first, outside}}, "token 1 for sequence 0 is 37");
  refuses({{first, negative}}, "token 0 for sequence 0 is -1");
  refuses({{first, text}}, "sequence 0 would have 80 tokens, but has room for 70");
  refuses({{first, part(text, 0, 1)}, {first, part(text, 0, 1)}}, "stands twice");
  served->append({{second, text}});
  const int third = served->open();
  EXPECT_THROW(served->append({{third, part(text, 0, 66)}}), OptionError);  // 1 page of 4 is free
  EXPECT_EQ(served->length(third), 0);
  EXPECT_THROW(served->truncate(first, 11), OptionError);
  EXPECT_THROW(served->truncate(first, -1), OptionError);
  EXPECT_THROW(served->set_parameter("transformer.wte.weight", std::vector<float>(3)), ShapeError);
  EXPECT_THROW(served->set_parameter("wte", std::vector<float>(3)), ShapeError);
  EXPECT_EQ(rows_of(served->append({{first, part(text, 10, 30)}})).at(0), wanted.at(29));
  served->close(third);
  EXPECT_THROW(served->close(third), OptionError);

  Host host({.threads = 1});
  EXPECT_THROW((nn::Session<Host, float>(host, model, {.positions = 0})), OptionError);
  EXPECT_THROW((nn::Session<Host, float>(host, model, {.sequences = 0})), OptionError);
  EXPECT_THROW((nn::Session<Host, float>(host, model, {.rows = 0})), OptionError);
}

/// Passes rows on, and fails once in the pass to which it is told to count.
struct Breaks {
  static constexpr std::string_view kind = "Breaks";
  static constexpr bool by_rows = true;
  int* passes = nullptr;

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    return result;
  }
  void forward(const auto& call) const {
    if (*passes > 0 && --*passes == 0) throw std::runtime_error("it is broken");
    std::ranges::copy(call.input(0).span(), call.output(0).span().begin());
  }
  void backward(const auto&) const {}
};

TEST(Session, leaves_all_sequences_as_they_were_where_a_pass_fails) {
  int passes = 0;
  graph::Graph<Host, float> model(1);
  const int tokens = model.input("tokens", {{1, 4}, Element::int32});
  int x = model.add("embed", nn::TokenEmbedding{.vocabulary = 37, .channels = 24}, {tokens})[0];
  const int qkv = model.add("qkv", nn::Linear{.features = 24}, {x})[0];
  x = model.add("attention", nn::CausalAttention{2}, {qkv})[0];
  x = model.add("breaks", Breaks{&passes}, {x})[0];
  model.rename(model.add("head", nn::Linear{.features = 37}, {x})[0], "logits");
  Served<float> served(model, {.positions = 100, .sequences = 4, .rows = 7});
  const Tokens text = drawn_tokens(100, 15);
  const Rows wanted = one_by_one(*served, text);
  const std::int64_t all_free = served->free_positions();
  const int first = served->open();
  served->append({{first, part(text, 0, 70)}});
  const int fork = served->fork(first);
  served->truncate(fork, 66);
  // The fork, which comes last, keeps the page that both write to: behind the failure it is not the first one's.
  passes = 5;  // of 7 rows: behind some of the fork's
  EXPECT_THROW(served->append({{first, part(text, 70, 90)}, {fork, part(drawn_tokens(100, 16), 66, 90)}}), std::runtime_error);
  EXPECT_EQ(served->length(first), 70);
  EXPECT_EQ(served->length(fork), 66);
  EXPECT_EQ(rows_of(served->append({{first, part(text, 70, 90), true}})), Rows(wanted.begin() + 70, wanted.begin() + 90));
  EXPECT_EQ(rows_of(served->append({{fork, part(text, 66, 100), true}})), Rows(wanted.begin() + 66, wanted.end()));
  served->close(first);
  served->close(fork);
  EXPECT_EQ(served->free_positions(), all_free);
}

/// An operator whose rows know each other.
struct Mean {
  static constexpr std::string_view kind = "Mean";
  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    return result;
  }
  void forward(const auto&) const {}
  void backward(const auto&) const {}
};

TEST(Session, names_an_operator_that_does_not_run_by_rows) {
  graph::Graph<Host, float> model(1);
  const int tokens = model.input("tokens", {{1, 4}, Element::int32});
  const int x = model.add("embed", nn::TokenEmbedding{.vocabulary = 5, .channels = 4}, {tokens})[0];
  const int y = model.add("mixer", Mean{}, {x})[0];
  model.rename(model.add("head", nn::Linear{.features = 5}, {y})[0], "logits");
  Host host({.threads = 1});
  try {
    const nn::Session<Host, float> session(host, model);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the node 'mixer' of kind Mean cannot run by rows"));
  }
  EXPECT_EQ(host.memory().used, 0U);
}

}  // namespace
