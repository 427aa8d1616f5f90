#include <reef/nn/generator.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/generate.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/linear.hpp>

#include "../laws/graph_runner.hpp"
#include "../support/gpt_config.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using nn::draw_token;
using nn::GenerateOptions;
using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

const std::vector<float> some_logits{0.5F, 2.0F, -1.0F, 2.0F, 1.0F};

TEST(DrawToken, draws_each_token_as_often_as_its_weight_says) {
  constexpr int draws = 100'000;
  for (const double temperature : {0.5, 1.0, 3.0}) {
    for (const std::int64_t top_k : {0, 3, 5, 9}) {
      const GenerateOptions options{.temperature = temperature, .top_k = top_k};
      std::vector<int> counts(some_logits.size());
      for (int i = 0; i < draws; ++i) {
        ++counts[static_cast<std::size_t>(draw_token(some_logits, options, (i + 0.5) / draws))];
      }
      std::vector<double> weights;
      for (const float logit : some_logits) weights.push_back(std::exp(logit / temperature));
      if (top_k == 3) weights[0] = weights[2] = 0;
      double sum = 0;
      for (const double weight : weights) sum += weight;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        EXPECT_NEAR(counts[i], draws * weights[i] / sum, 1.01) << "token " << i;
      }
    }
  }
}

TEST(DrawToken, takes_the_likeliest_and_of_equal_ones_the_first) {
  for (const double uniform : {0.0, 0.3, 1 - 0x1p-24}) {
    EXPECT_EQ(draw_token(some_logits, {.temperature = 0, .top_k = 4}, uniform), 1);
    EXPECT_EQ(draw_token(some_logits, {.temperature = 2, .top_k = 1}, uniform), 1);
    EXPECT_EQ(draw_token(some_logits, {.temperature = 1e-300, .top_k = 1}, uniform), 1);
  }
  const std::vector<float> extremes{-3e38F, 3e38F, 0.0F};
  EXPECT_EQ(draw_token(extremes, {.temperature = 1e-3, .top_k = 0}, 0.99), 1);
}

TEST(DrawToken, refuses_logits_that_are_not_finite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits = some_logits;
    logits[3] = bad;
    EXPECT_THROW((void)draw_token(logits, {}, 0.5), NonFiniteError);
    EXPECT_THROW((void)draw_token(logits, {.temperature = 0}, 0.5), NonFiniteError);
  }
}

/// Adds to each position half of what became of the one before: no code for rows runs it.
struct Trail {
  static constexpr std::string_view kind = "Trail";
  graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    return result;
  }
  void forward(const auto& call) const {
    const auto x = call.input(0).span();
    const auto y = call.output(0).span();
    const auto C = static_cast<std::size_t>(call.input(0).shape().last());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = i < C ? x[i] : x[i] + y[i - C] / 2;
  }
  void backward(const auto& call) const {
    const auto dx = call.input_gradient(0).span();
    std::fill(dx.begin(), dx.end(), 0.0F);
  }
};

/// The logits that the graph itself has behind the last of at most T tokens.
std::vector<float> logits_of(Host& device, const graph::Graph<Host, float>& model, const Point<float>& point, Tokens text) {
  const graph::Dag& dag = model.dag();
  const int logits = dag.tensor("logits");
  const Shape& shape = dag.tensor_at(logits).spec.shape;
  GraphRunner<Host, float> runner(device, model, {}, dag.tensor_at(logits).producer + 1);
  point.apply(runner);
  const auto last = static_cast<std::ptrdiff_t>(text.size() - 1) * shape.last();
  text.resize(static_cast<std::size_t>(shape.rows()), 0);
  runner.set(dag.tensor("tokens"), text);
  runner.forward({}, false);
  const std::vector<float> all = runner.value(logits);
  return {all.begin() + last, all.begin() + last + shape.last()};
}

/// A model whose nodes do not all run by rows, of 6 positions and 17 tokens.
graph::Graph<Host, float> model_of_trails() {
  graph::Graph<Host, float> model(2);
  const int tokens = model.input("tokens", {{1, 6}, Element::int32});
  int x = model.add("embedding", nn::Embedding{17, 6, 8}, {tokens}, {"wte", "wpe"})[0];
  x = model.add("trail", Trail{}, {x})[0];
  model.add("logits", nn::Linear{.features = 17}, {x});
  return model;
}

TEST(Generator, heeds_the_repetition_penalty_of_a_model_that_does_not_run_by_rows) {
  Host device({.threads = 2});
  const auto model = model_of_trails();
  const auto point = Point<float>::make(model.dag(), 17);
  nn::Generator<Host, float> generator(device, model);
  for (const auto& [id, values] : point.parameters) generator.set_parameter(model.dag().parameter_at(id).name, values);
  const GenerateOptions options{.tokens = 5, .temperature = 0, .repetition_penalty = 1e3, .placeholders = 1};
  Tokens wanted{3, 1};
  for (int i = 0; i < 5; ++i) {
    const std::size_t begin = wanted.size() > 6 ? wanted.size() - 6 : 0;
    std::vector<float> logits = generator.logits(std::span(wanted).subspan(begin));
    nn::penalise_repetition(logits, std::span(wanted).subspan(1), 1e3);
    wanted.push_back(static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  EXPECT_EQ(generator.generate(Tokens{3, 1}, options), wanted);
  EXPECT_NE(generator.generate(Tokens{3, 1}, {.tokens = 5, .temperature = 0}), wanted);
}

TEST(Generator, runs_all_positions_of_a_model_that_does_not_run_by_rows) {
  Host device({.threads = 2});
  const auto model = model_of_trails();
  const auto point = Point<float>::make(model.dag(), 17);
  nn::Generator<Host, float> generator(device, model);
  for (const auto& [id, values] : point.parameters) generator.set_parameter(model.dag().parameter_at(id).name, values);
  for (const Tokens& text : {Tokens{3, 1, 4}, Tokens{3}, Tokens{3, 1, 4, 1, 5, 9}, Tokens{2, 1, 4}}) {
    EXPECT_EQ(generator.logits(text), logits_of(device, model, point, text)) << text.size() << " tokens";
  }
}

class Generation : public testing::Test {
protected:
  Generation() {
    for (const auto& [id, values] : point_.parameters) {
      generator_.set_parameter(model_.dag().parameter_at(id).name, values);
    }
  }

  static nn::GptConfig config() {
    nn::GptConfig config = small_config();
    config.batch = 1;
    config.padded_vocabulary = 64;
    return config;
  }

  /// Argmax of the graph's own logits, a window and a token at a time.
  Tokens continued(Tokens text, int count) {
    for (int i = 0; i < count; ++i) {
      const std::size_t begin = text.size() > context ? text.size() - context : 0;
      const std::vector<float> row =
          logits_of(device_, model_, point_, Tokens(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end()));
      text.push_back(static_cast<std::int32_t>(std::max_element(row.begin(), row.begin() + 37) - row.begin()));
    }
    return text;
  }

  static constexpr std::size_t context = 11;
  Host device_{{.threads = 2}};
  graph::Graph<Host, float> model_ = nn::gpt<Host, float>(config(), 2);
  Point<float> point_ = Point<float>::make(model_.dag(), 37);
  nn::Generator<Host, float> generator_{device_, model_};
};

TEST_F(Generation, without_temperature_is_the_argmax_of_the_models_logits) {
  const Tokens prompt{3, 14, 15, 9};
  GenerateOptions options{.tokens = 25, .temperature = 0, .vocabulary = 37};
  const Tokens text = generator_.generate(prompt, options);
  EXPECT_EQ(text, continued(prompt, 25));
  EXPECT_GT(std::set<std::int32_t>(text.begin() + 4, text.end()).size(), 1U);
  // A prompt longer than the window.
  options.tokens = 3;
  EXPECT_EQ(generator_.generate(text, options), continued(text, 3));
}

TEST_F(Generation, draws_the_tokens_of_a_session_whatever_the_options) {
  nn::Session<Host, float> session(device_, model_, {.positions = static_cast<std::int64_t>(context)});
  for (const auto& [id, values] : point_.parameters) session.set_parameter(model_.dag().parameter_at(id).name, values);
  const std::vector<Tokens> prompts{{3, 14, 15, 9}};
  const GenerateOptions plain{.tokens = 8, .temperature = 2, .top_k = 0, .vocabulary = 37, .seed = 4};
  const auto both = [&](const auto& change) {
    GenerateOptions options = plain;
    change(options);
    Tokens wanted = prompts[0];
    const auto found = nn::generate(session, std::span<const Tokens>(prompts), options);
    wanted.insert(wanted.end(), found[0].tokens.begin(), found[0].tokens.end());
    EXPECT_EQ(generator_.generate(prompts[0], options), wanted);
    return wanted;
  };
  const Tokens usual = both([](auto&) {});
  EXPECT_EQ(usual.size(), 12U);
  EXPECT_NE(both([](auto& options) { options.seed = 5; }), usual);
  EXPECT_NE(both([](auto& options) { options.top_p = 0.1; }), usual);
  const auto penalised = [](auto& options) { options.temperature = 0, options.repetition_penalty = 1e3; };
  EXPECT_NE(both(penalised), both([](auto& options) { options.temperature = 0; }));
  both([&](auto& options) { penalised(options), options.placeholders = 4; });
  EXPECT_EQ(both([&](auto& options) { options.ends = {usual[6]}; }),
            Tokens(usual.begin(), std::find(usual.begin() + 4, usual.end(), usual[6]) + 1));
}

TEST_F(Generation, its_logits_do_not_depend_on_what_it_read_before) {
  const Tokens text{3, 14, 15, 9, 26, 5};
  for (const Tokens& asked : {Tokens{3, 14, 15}, text, text, Tokens{3, 14}, Tokens{3, 14, 16, 9, 26, 5}, Tokens{15}}) {
    nn::Generator<Host, float> fresh(device_, model_);
    for (const auto& [id, values] : point_.parameters) fresh.set_parameter(model_.dag().parameter_at(id).name, values);
    EXPECT_EQ(generator_.logits(asked), fresh.logits(asked)) << asked.size() << " tokens";
    EXPECT_LT(relative_error(generator_.logits(asked), logits_of(device_, model_, point_, asked)), 1e-5);
  }
  // What was read under other weights is read again.
  const int wpe = model_.dag().parameter("transformer.wpe.weight");
  const std::vector<float> before = generator_.logits(text);
  generator_.set_parameter("transformer.wpe.weight", std::vector<float>(point_.parameters.at(wpe).size(), 0.5F));
  EXPECT_NE(generator_.logits(text), before);
  generator_.set_parameter("transformer.wpe.weight", point_.parameters.at(wpe));
  EXPECT_EQ(generator_.logits(text), before);
}

TEST_F(Generation, ends_where_it_is_told_not_to_proceed) {
  int asked = 0;
  GenerateOptions options{.tokens = 25, .temperature = 0, .vocabulary = 37};
  options.proceed = [&] { return asked++ < 3; };
  EXPECT_EQ(generator_.generate(Tokens{3, 14}, options), continued({3, 14}, 3));
}

TEST_F(Generation, is_the_same_for_the_same_seed_and_another_for_another) {
  const Tokens prompt{1, 2};
  const auto text = [&](std::uint64_t seed) {
    return generator_.generate(prompt, {.tokens = 30, .vocabulary = 37, .seed = seed});
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
  // A longer text begins as a shorter one.
  const Tokens shorter = generator_.generate(prompt, {.tokens = 9, .vocabulary = 37, .seed = 1});
  const Tokens longer = text(1);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  EXPECT_EQ(shorter.size(), 11U);
  EXPECT_EQ(generator_.generate(prompt, {.tokens = 0}), prompt);
}

TEST_F(Generation, draws_no_token_beyond_the_vocabulary) {
  const Tokens text = generator_.generate(
      Tokens{0}, {.tokens = 200, .temperature = 100, .top_k = 0, .vocabulary = 37});
  EXPECT_LT(*std::max_element(text.begin(), text.end()), 37);
  EXPECT_GT(std::set<std::int32_t>(text.begin(), text.end()).size(), 20U);
}

TEST_F(Generation, refuses_what_cannot_be_and_goes_on) {
  const auto refuses = [&](const Tokens& prompt, const GenerateOptions& options, const char* why) {
    try {
      generator_.generate(prompt, options);
      ADD_FAILURE() << "nothing was thrown for: " << why;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  refuses({}, {}, "the prompt is empty");
  refuses({1, 64}, {}, "token 1 of the prompt is 64");
  refuses({-1}, {}, "token 0 of the prompt is -1");
  refuses({1}, {.tokens = -1}, "tokens is -1");
  refuses({1}, {.temperature = -0.5}, "temperature is -0.5");
  refuses({1}, {.temperature = std::nan("")}, "temperature is nan");
  refuses({1}, {.top_k = -1}, "top_k is -1");
  refuses({1}, {.vocabulary = 65}, "vocabulary is 65");
  EXPECT_THROW(generator_.set_parameter("transformer.wte.weight", std::vector<float>(3)),
               ShapeError);
  EXPECT_THROW(generator_.set_parameter("wte", std::vector<float>(3)), ShapeError);
  EXPECT_EQ(generator_.generate(Tokens{1}, {.tokens = 2}).size(), 3U);

  // Weights that are not finite, and then are again.
  const int wpe = model_.dag().parameter("transformer.wpe.weight");
  generator_.set_parameter("transformer.wpe.weight",
                           std::vector<float>(point_.parameters.at(wpe).size(), NAN));
  EXPECT_THROW(generator_.generate(Tokens{1}, {}), NonFiniteError);
  generator_.set_parameter("transformer.wpe.weight", point_.parameters.at(wpe));
  EXPECT_EQ(generator_.generate(Tokens{1}, {.tokens = 2}).size(), 3U);
}

TEST(Generator, takes_a_model_of_one_sequence_alone) {
  Host device({.threads = 1});
  const auto two = nn::gpt<Host, float>(small_config(), 1);
  EXPECT_THROW((nn::Generator<Host, float>(device, two)), ShapeError);
  graph::Graph<Host, float> none(1);
  none.input("tokens", {{1, 4}, Element::int32});
  EXPECT_THROW((nn::Generator<Host, float>(device, none)), ShapeError);
}

TEST(Generator, in_bf16_continues_as_its_rounded_weights_do_in_fp32) {
  Host device({.threads = 1});
  nn::GptConfig config = small_config();
  config.batch = 1;
  const auto narrow = nn::gpt<Host, Bfloat16>(config, 1);
  const auto wide = nn::gpt<Host, float>(config, 1);
  nn::Generator<Host, Bfloat16> narrow_generator(device, narrow);
  nn::Generator<Host, float> wide_generator(device, wide);
  for (const auto& [id, values] : Point<float>::make(wide.dag(), 37).parameters) {
    std::vector<float> rounded;
    for (const float value : values) rounded.push_back(Bfloat16(value));
    narrow_generator.set_parameter(wide.dag().parameter_at(id).name, values);
    wide_generator.set_parameter(wide.dag().parameter_at(id).name, rounded);
  }
  const std::vector<float> found = narrow_generator.logits(Tokens{3, 1, 4});
  const std::vector<float> wanted = wide_generator.logits(Tokens{3, 1, 4});
  // Activations of 8 bits through two layers of small width.
  EXPECT_LT(relative_error(found, wanted), 16 * 0x1p-8);
  EXPECT_NE(found, wanted);
}

TEST(Generator, that_finds_no_room_gives_back_what_it_took) {
  nn::GptConfig config = small_config();
  config.batch = 1;
  const auto model = nn::gpt<Host, float>(config, 1);
  Host device({.memory_bytes = 40'000, .threads = 1});
  EXPECT_THROW((nn::Generator<Host, float>(device, model)), MemoryError);
  EXPECT_EQ(device.memory().used, 0U);
}

}  // namespace
