// Continuations of several prompts, and beams: beside what follows from logits alone.

#include <reef/nn/generate.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/beam_search.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>

#include "../laws/graph_runner.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;
using Session = nn::Session<Host, float>;

/// A model of so few tokens that all continuations can be tried.
class Continuing : public testing::Test {
protected:
  Continuing() {
    for (const auto& [id, values] : Point<float>::make(model_.dag(), 5).parameters) {
      session_.set_parameter(model_.dag().parameter_at(id).name, values);
    }
  }

  static nn::GptConfig config() {
    nn::GptConfig config;
    config.layers = 1;
    config.heads = 2;
    config.channels = 8;
    config.vocabulary = 8;
    config.context = 80;
    config.sequence = 1;
    config.batch = 1;
    return config;
  }

  /// The log-probabilities of all tokens behind a text.
  std::vector<double> behind(const Tokens& text) {
    const int sequence = session_.open();
    const nn::Logits logits = session_.append({{sequence, text}});
    std::vector<double> result;
    for (std::int32_t token = 0; token < 8; ++token) result.push_back(nn::log_probability(logits.row(0), token));
    session_.close(sequence);
    return result;
  }

  Host host_{{.threads = 2}};
  graph::Graph<Host, float> model_ = nn::gpt<Host, float>(config(), 2);
  Session session_{host_, model_, {.positions = 80, .sequences = 9, .rows = 16}};
};

TEST_F(Continuing, is_the_argmax_of_logits_without_temperature_and_tells_each_token) {
  const std::vector<Tokens> prompts{{1, 2, 3}, {4}, {5, 6}};
  std::map<std::size_t, Tokens> told;
  const auto found = nn::generate(session_, std::span<const Tokens>(prompts), {.tokens = 10, .temperature = 0},
                                  [&](std::size_t i, std::int32_t token) {
                                    told[i].push_back(token);
                                    return i != 1 || told[i].size() < 4;
                                  });
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(found[i].tokens.size(), i == 1 ? 4U : 10U);
    EXPECT_EQ(told[i], found[i].tokens);
    Tokens text = prompts[i];
    for (std::size_t k = 0; k < found[i].tokens.size(); ++k) {
      const std::vector<double> all = behind(text);
      const auto best = std::max_element(all.begin(), all.end());
      EXPECT_EQ(found[i].tokens[k], best - all.begin());
      EXPECT_EQ(found[i].log_probabilities[k], *best);
      text.push_back(found[i].tokens[k]);
    }
  }
}

TEST_F(Continuing, draws_by_prompt_and_position_whatever_is_beside_it) {
  const std::vector<Tokens> prompts{{1, 2, 3}, {4}};
  const nn::GenerateOptions options{.tokens = 12, .seed = 3};
  const auto both = nn::generate(session_, std::span<const Tokens>(prompts), options);
  const auto first = nn::generate(session_, std::span(prompts).first(1), options);
  EXPECT_EQ(both[0].tokens, first[0].tokens);
  EXPECT_EQ(both[0].log_probabilities, first[0].log_probabilities);
  EXPECT_NE(both[0].tokens, nn::generate(session_, std::span(prompts).first(1), {.tokens = 12, .seed = 4})[0].tokens);
}

TEST_F(Continuing, ends_where_it_is_told_not_to_proceed_and_gives_its_pages_back) {
  const std::int64_t all_free = session_.free_positions();
  const std::vector<Tokens> prompts{{1}, {2}};
  int asked = 0;
  nn::GenerateOptions options{.tokens = 12};
  options.proceed = [&] { return asked++ < 3; };
  EXPECT_EQ(nn::generate(session_, std::span<const Tokens>(prompts), options)[1].tokens.size(), 3U);
  const std::vector<Tokens> bad{{1}, {99}};
  EXPECT_THROW(nn::generate(session_, std::span<const Tokens>(bad)), OptionError);
  EXPECT_THROW(nn::generate(session_, std::span<const Tokens>(prompts), {.top_p = 0}), OptionError);
  EXPECT_THROW(nn::generate(session_, std::span<const Tokens>(prompts), {.repetition_penalty = 0}), OptionError);
  EXPECT_EQ(session_.free_positions(), all_free);
}

TEST_F(Continuing, ends_with_the_first_token_that_ends) {
  const std::vector<Tokens> prompts{{1, 2, 3}, {4}};
  const nn::GenerateOptions plain{.tokens = 30, .top_k = 0, .seed = 3};
  const auto whole = nn::generate(session_, std::span<const Tokens>(prompts), plain);
  nn::GenerateOptions options = plain;
  options.ends = {whole[0].tokens[4], whole[1].tokens[7]};
  const auto found = nn::generate(session_, std::span<const Tokens>(prompts), options);
  bool shorter = false;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto& all = whole[i].tokens;
    const auto first = std::find_first_of(all.begin(), all.end(), options.ends.begin(), options.ends.end());
    EXPECT_EQ(found[i].tokens, Tokens(all.begin(), first == all.end() ? first : first + 1));
    EXPECT_EQ(found[i].log_probabilities.size(), found[i].tokens.size());
    shorter |= found[i].tokens.size() < 10;
  }
  EXPECT_TRUE(shorter);
  for (const std::int32_t bad : {-1, 8}) {
    options.ends = {bad};
    EXPECT_THROW(nn::generate(session_, std::span<const Tokens>(prompts), options), OptionError);
  }
}

TEST_F(Continuing, has_the_same_tokens_from_logits_of_any_source) {
  const std::vector<Tokens> prompts{{1, 2, 3}, {4}, {5, 6}};
  for (const double temperature : {0.0, 1.0}) {
    const nn::GenerateOptions options{.tokens = 12, .temperature = temperature, .top_k = 0, .vocabulary = 6, .seed = 3,
                                      .top_p = 0.9, .repetition_penalty = 1.5, .placeholders = 1, .ends = {2}};
    const auto cached = nn::generate(session_, std::span<const Tokens>(prompts), options);
    std::vector<float> values;
    const auto anew = nn::continue_texts(
        std::span<const Tokens>(prompts), 8,
        [&](const std::vector<std::size_t>& going, const std::vector<Tokens>& texts) {
          values.clear();
          for (const std::size_t i : going) {
            const int sequence = session_.open();
            const auto row = session_.append({{sequence, texts[i]}}).row(0);
            values.insert(values.end(), row.begin(), row.end());
            session_.close(sequence);
          }
          return nn::Logits{values, 8};
        },
        options);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(cached[i].tokens, anew[i].tokens);
      EXPECT_EQ(cached[i].log_probabilities, anew[i].log_probabilities);
      for (const std::int32_t token : cached[i].tokens) EXPECT_LT(token, 6);
    }
  }
}

TEST(DrawToken, among_the_likeliest_whose_probabilities_sum_to_top_p) {
  // Probabilities 0.5, 0.25, 0.125, 0.125: of equal ones the lower token first.
  const std::vector<float> logits{std::log(0.125F), std::log(0.5F), std::log(0.125F), std::log(0.25F)};
  const auto drawn = [&](double top_p) {
    std::map<std::int32_t, int> counts;
    for (int i = 0; i < 6000; ++i) ++counts[nn::draw_token(logits, {.top_k = 0, .top_p = top_p}, (i + 0.5) / 6000)];
    return counts;
  };
  EXPECT_EQ(drawn(0.3), (std::map<std::int32_t, int>{{1, 6000}}));
  EXPECT_THAT(drawn(0.7), testing::ElementsAre(testing::Pair(1, testing::AllOf(testing::Ge(3998), testing::Le(4002))),
                                               testing::Pair(3, testing::AllOf(testing::Ge(1998), testing::Le(2002)))));
  EXPECT_EQ(drawn(0.8).size(), 3U);
  EXPECT_EQ(drawn(0.8).count(2), 0U);
  EXPECT_EQ(drawn(0.95).size(), 4U);
}

TEST(PenaliseRepetition, divides_logits_of_tokens_that_are_there_once) {
  std::vector<float> logits{2, -2, 3, -3};
  nn::penalise_repetition(logits, Tokens{0, 1, 1, 0, 7}, 2);
  EXPECT_EQ(logits, (std::vector<float>{1, -4, 3, -3}));
}

TEST(PenaliseRepetition, is_for_no_token_that_stands_for_a_soft_prompt) {
  const Tokens sequence{0, 0, 5, 6};
  EXPECT_THAT(nn::text_of(sequence, {.placeholders = 2}), testing::ElementsAre(5, 6));
  EXPECT_THAT(nn::text_of(sequence, {}), testing::ElementsAre(0, 0, 5, 6));
  EXPECT_TRUE(nn::text_of(sequence, {.placeholders = 7}).empty());
  EXPECT_THROW(nn::GenerateOptions{.placeholders = -1}.validate(8), OptionError);
}

TEST_F(Continuing, a_penalty_is_for_no_token_that_stands_for_a_soft_prompt) {
  bool differ = false;
  for (std::int32_t placeholder = 0; placeholder < 8; ++placeholder) {
    const std::vector<Tokens> prompts{{placeholder, placeholder, 1}};
    const auto drawn = [&](std::int64_t placeholders) {
      return nn::generate(session_, std::span<const Tokens>(prompts),
                          {.tokens = 1, .temperature = 0, .repetition_penalty = 1e3, .placeholders = placeholders})[0].tokens[0];
    };
    const auto wanted = [&](const Tokens& penalised) {
      const int sequence = session_.open();
      const auto row = session_.append({{sequence, prompts[0]}}).row(0);
      std::vector<float> logits(row.begin(), row.end());
      session_.close(sequence);
      nn::penalise_repetition(logits, penalised, 1e3);
      return std::max_element(logits.begin(), logits.end()) - logits.begin();
    };
    EXPECT_EQ(drawn(2), wanted({1}));
    EXPECT_EQ(drawn(0), wanted({placeholder, 1}));
    differ |= drawn(2) != drawn(0);
  }
  EXPECT_TRUE(differ);
}

TEST_F(Continuing, beams_that_hold_all_find_the_best_of_all) {
  const Tokens prompt{1, 2};
  for (const double penalty : {0.0, 1.0}) {
    std::vector<nn::Beam> all;
    for (std::int32_t a = 0; a < 8; ++a) {
      const double log_a = behind(prompt)[static_cast<std::size_t>(a)];
      Tokens with_a = prompt;
      with_a.push_back(a);
      for (std::int32_t b = 0; b < 8; ++b) {
        all.push_back({{a, b}, log_a + behind(with_a)[static_cast<std::size_t>(b)], 0});
      }
    }
    std::sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.log_probability > y.log_probability; });
    const auto found = nn::beam_search(session_, prompt, {.beams = 8, .tokens = 2, .length_penalty = penalty});
    ASSERT_EQ(found.size(), 8U);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(found[i].tokens, all[i].tokens);
      EXPECT_NEAR(found[i].log_probability, all[i].log_probability, 1e-9);
      EXPECT_NEAR(found[i].score, all[i].log_probability / std::pow(2.0, penalty), 1e-9);
    }
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [](const auto& x, const auto& y) { return x.score > y.score; }));
  }
}

TEST_F(Continuing, beams_are_a_search_that_is_written_without_pages) {
  const std::int64_t all_free = session_.free_positions();
  const Tokens prompt{3, 1};
  // Followed by hand: all texts of a step, each computed anew.
  std::vector<nn::Beam> live{{{}, 0, 0}};
  for (int step = 0; step < 30; ++step) {
    std::vector<nn::Beam> next;
    for (const nn::Beam& beam : live) {
      Tokens text = prompt;
      text.insert(text.end(), beam.tokens.begin(), beam.tokens.end());
      const auto log_probabilities = behind(text);
      for (std::int32_t token = 0; token < 8; ++token) {
        nn::Beam grown = beam;
        grown.tokens.push_back(token);
        grown.log_probability += log_probabilities[static_cast<std::size_t>(token)];
        next.push_back(grown);
      }
    }
    std::stable_sort(next.begin(), next.end(), [](const auto& a, const auto& b) { return a.log_probability > b.log_probability; });
    next.resize(3);
    live = next;
  }
  const auto found = nn::beam_search(session_, prompt, {.beams = 3, .tokens = 30});
  ASSERT_EQ(found.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].tokens, live[i].tokens);
    EXPECT_NEAR(found[i].log_probability, live[i].log_probability, 1e-9);
  }
  EXPECT_EQ(session_.free_positions(), all_free);
}

TEST_F(Continuing, beams_fit_into_as_many_sequences_as_there_are_beams) {
  for (const std::int64_t positions : {64, 80}) {
    for (const std::int64_t length : {1, 3, 40, 63, 64}) {
      if (length >= positions) continue;
      SCOPED_TRACE(testing::Message() << positions << " positions, a prompt of " << length);
      Session tight(host_, model_, {.positions = positions, .sequences = 4, .rows = 16});
      for (const auto& [id, values] : Point<float>::make(model_.dag(), 5).parameters) {
        tight.set_parameter(model_.dag().parameter_at(id).name, values);
      }
      const std::int64_t all_free = tight.free_positions();
      Tokens prompt;
      for (std::int32_t i = 0; i < length; ++i) prompt.push_back(i * 5 % 8);
      const nn::BeamOptions options{.beams = 4, .tokens = positions - length};
      const auto found = nn::beam_search(tight, prompt, options);
      const auto wanted = nn::beam_search(session_, prompt, options);
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].tokens, wanted[i].tokens);
        EXPECT_EQ(found[i].log_probability, wanted[i].log_probability);
      }
      EXPECT_EQ(tight.free_positions(), all_free);
    }
  }
}

/// A session that has no forks but batches, which are computed anew from all tokens of each sequence.
class Batches {
public:
  explicit Batches(Session& session) : session_(session) {}

  int open(std::int64_t count = 1) {
    batches_[++last_].resize(static_cast<std::size_t>(count));
    return last_;
  }
  void close(int batch) { batches_.erase(batch); }
  std::int64_t length(int batch) { return std::ssize(batches_.at(batch)[0]); }
  void truncate(int batch, std::int64_t length) {
    for (Tokens& text : batches_.at(batch)) text.resize(static_cast<std::size_t>(length));
  }
  void reorder(int batch, std::span<const std::int64_t> from) {
    const std::vector<Tokens> before = batches_.at(batch);
    for (std::size_t i = 0; i < from.size(); ++i) batches_.at(batch)[i] = before[static_cast<std::size_t>(from[i])];
  }
  nn::Logits append(std::span<const nn::Append> appends) {
    values_.clear();
    for (const nn::Append& one : appends) {
      std::vector<Tokens>& texts = batches_.at(one.sequence);
      const std::size_t rows = one.tokens.size() / texts.size();
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const auto own = one.tokens.subspan(i * rows, rows);
        texts[i].insert(texts[i].end(), own.begin(), own.end());
        const int sequence = session_.open();
        const auto row = session_.append({{sequence, texts[i]}}).row(0);
        values_.insert(values_.end(), row.begin(), row.end());
        session_.close(sequence);
      }
    }
    return {values_, session_.vocabulary()};
  }
  nn::Logits append(std::initializer_list<nn::Append> appends) {
    return append(std::span<const nn::Append>(appends.begin(), appends.size()));
  }
  [[nodiscard]] std::int64_t vocabulary() const { return session_.vocabulary(); }
  [[nodiscard]] std::size_t open_batches() const { return batches_.size(); }

private:
  Session& session_;
  std::map<int, std::vector<Tokens>> batches_;
  int last_ = 0;
  std::vector<float> values_;
};

TEST_F(Continuing, beams_are_the_same_by_forks_and_by_reordering) {
  Batches batches(session_);
  const Tokens prompt{3, 1};
  for (const nn::BeamOptions& options :
       {nn::BeamOptions{.beams = 3, .tokens = 20}, nn::BeamOptions{.beams = 8, .tokens = 5, .ends = {1, 4, 6}},
        nn::BeamOptions{.beams = 4, .tokens = 12, .length_penalty = 0.5, .ends = {2}, .vocabulary = 5},
        nn::BeamOptions{.beams = 1, .tokens = 6}, nn::BeamOptions{.beams = 8, .tokens = 1}}) {
    const auto forked = nn::beam_search(session_, prompt, options);
    const auto reordered = nn::beam_search(batches, prompt, options);
    ASSERT_EQ(forked.size(), reordered.size());
    for (std::size_t i = 0; i < forked.size(); ++i) {
      EXPECT_EQ(forked[i].tokens, reordered[i].tokens);
      EXPECT_EQ(forked[i].log_probability, reordered[i].log_probability);
      EXPECT_EQ(forked[i].score, reordered[i].score);
      for (const std::int32_t token : forked[i].tokens) EXPECT_LT(token, options.vocabulary == 0 ? 8 : 5);
    }
    EXPECT_EQ(batches.open_batches(), 0U);
  }
}

TEST_F(Continuing, beams_end_with_the_token_that_ends) {
  const Tokens prompt{3, 1};
  const std::int32_t end = nn::beam_search(session_, prompt, {.beams = 2, .tokens = 1})[1].tokens[0];
  const auto found = nn::beam_search(session_, prompt, {.beams = 2, .tokens = 20, .length_penalty = 0, .ends = {end}});
  for (const nn::Beam& beam : found) {
    EXPECT_TRUE(std::find(beam.tokens.begin(), beam.tokens.end() - 1, end) == beam.tokens.end() - 1);
  }
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const auto& beam) { return beam.tokens.back() == end; }));
  EXPECT_THROW(nn::beam_search(session_, prompt, {.beams = 0}), OptionError);
  EXPECT_THROW(nn::beam_search(session_, prompt, {.beams = 9}), OptionError);
  EXPECT_THROW(nn::beam_search(session_, prompt, {.tokens = 0}), OptionError);
  EXPECT_THROW(nn::beam_search(session_, prompt, {.beams = 4, .vocabulary = 3}), OptionError);
  EXPECT_THROW(nn::beam_search(session_, prompt, {.vocabulary = 9}), OptionError);
  EXPECT_THROW(nn::beam_search(session_, prompt, {.ends = {8}}), OptionError);
}

}  // namespace
