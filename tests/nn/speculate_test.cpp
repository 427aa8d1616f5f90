// Texts with a draft are the texts without one, bit for bit, whatever the draft proposes.

#include <reef/nn/speculate.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/generate.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/model_draft.hpp>
#include <reef/nn/ngram_draft.hpp>

#include <support/small_language_models.hpp>

#include "../laws/graph_runner.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using testing::HasSubstr;
using DraftedTokens = std::vector<std::int32_t>;
using DraftedGraph = graph::Graph<Host, float>;
using DraftedSession = nn::Session<Host, float>;

constexpr std::int32_t drafted_vocabulary = 13;  // so few that texts repeat themselves

constexpr SmallLanguageModel drafted{.vocabulary = drafted_vocabulary};

/// A model with drawn weights and a session of it.
class DraftedModel {
public:
  DraftedModel(const DraftedGraph& graph, nn::SessionOptions options) : session_(host_, graph, options) {
    for (const auto& [id, values] : Point<float>::make(graph.dag(), drafted_vocabulary).parameters)
      session_.set_parameter(graph.dag().parameter_at(id).name, values);
  }
  DraftedSession& operator*() { return session_; }
  DraftedSession* operator->() { return &session_; }

private:
  Host host_{{.threads = 1}};
  DraftedSession session_;
};

/// Proposes by a function of the text's number and of the place of a token in it.
class ToldDraft {
public:
  using Token = std::function<std::int32_t(std::size_t text, std::size_t place)>;
  explicit ToldDraft(Token token) : token_(std::move(token)) {}

  std::vector<DraftedTokens> propose(std::span<const nn::DraftRequest> requests, const nn::GenerateOptions&) {
    std::vector<DraftedTokens> proposals;
    for (const nn::DraftRequest& one : requests) {
      auto& proposed = proposals.emplace_back();
      for (std::int64_t k = 0; k < one.most; ++k)
        proposed.push_back(token_(one.text, one.tokens.size() + static_cast<std::size_t>(k)));
    }
    return proposals;
  }

private:
  Token token_;
};

/// The text that the model draws without a draft, by place; behind its end token 0.
class KnownTexts {
public:
  KnownTexts(const std::vector<DraftedTokens>& prompts, const std::vector<nn::Continuation>& found) : texts_(prompts) {
    for (std::size_t i = 0; i < found.size(); ++i)
      texts_[i].insert(texts_[i].end(), found[i].tokens.begin(), found[i].tokens.end());
  }
  [[nodiscard]] std::int32_t at(std::size_t text, std::size_t place) const {
    return place < texts_[text].size() ? texts_[text][place] : 0;
  }

private:
  std::vector<DraftedTokens> texts_;
};

void expect_same_texts(const std::vector<nn::Continuation>& found, const std::vector<nn::Continuation>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tokens, wanted[i].tokens) << "text " << i;
    EXPECT_EQ(found[i].log_probabilities, wanted[i].log_probabilities) << "text " << i;
  }
}

const std::vector<DraftedTokens>& drafted_prompts() {
  static const std::vector<DraftedTokens> prompts{{5, 1, 3, 2}, {1}, DraftedTokens(70, 9)};
  return prompts;
}

std::vector<nn::GenerateOptions> drafted_ways() {
  return {{.tokens = 30, .temperature = 0},
          {.tokens = 30, .temperature = 0.9, .top_k = 0, .seed = 3},
          {.tokens = 30, .temperature = 1.5, .top_k = 4, .seed = 4},
          {.tokens = 30, .temperature = 1.2, .top_k = 0, .vocabulary = 11, .seed = 5, .top_p = 0.8,
           .repetition_penalty = 1.3, .placeholders = 1}};
}

TEST(Speculate, has_the_bits_of_plain_decoding_with_drafts_that_are_right_wrong_random_or_of_ngrams) {
  std::int64_t accepted = 0;
  for (const DraftedGraph& graph : {drafted.gpt(), drafted.llama(), drafted.bloom(), drafted.neox()}) {
    DraftedModel model(graph, {.positions = 100, .sequences = 3, .rows = 16});
    const std::int64_t all_free = model->free_positions();
    for (const nn::GenerateOptions& way : drafted_ways()) {
      const auto wanted = nn::generate(*model, std::span<const DraftedTokens>(drafted_prompts()), way);
      const KnownTexts texts(drafted_prompts(), wanted);
      std::mt19937 random(7);
      ToldDraft right([&](std::size_t text, std::size_t place) { return texts.at(text, place); });
      ToldDraft wrong([&](std::size_t text, std::size_t place) {
        return (texts.at(text, place) + 1) % drafted_vocabulary;
      });
      ToldDraft drawn([&](std::size_t text, std::size_t place) {
        return random() % 3 > 0 ? texts.at(text, place) : static_cast<std::int32_t>(random() % drafted_vocabulary);
      });
      nn::NgramDraft ngrams;
      for (const std::optional<std::int64_t> d : {std::optional<std::int64_t>(0), std::optional<std::int64_t>(1),
                                                  std::optional<std::int64_t>(4), std::optional<std::int64_t>(40),
                                                  std::optional<std::int64_t>()}) {
        const auto run = [&](auto& draft) {
          const nn::Speculation found =
              nn::speculate(*model, draft, std::span<const DraftedTokens>(drafted_prompts()), {.tokens = d}, way);
          expect_same_texts(found.continuations, wanted);
          EXPECT_EQ(model->free_positions(), all_free);
          return found;
        };
        const nn::Speculation of_right = run(right);
        EXPECT_EQ(of_right.accepted, of_right.proposed);
        const nn::Speculation of_wrong = run(wrong);
        EXPECT_EQ(of_wrong.accepted, 0);
        EXPECT_EQ(of_wrong.passes, 30);
        const nn::Speculation of_drawn = run(drawn);
        EXPECT_LE(of_drawn.accepted, of_drawn.proposed);
        accepted += run(ngrams).accepted;
        if (d == 0) {
          EXPECT_EQ(of_right.proposed + of_wrong.proposed + of_drawn.proposed, 0);
        } else if (d) {
          EXPECT_GT(of_wrong.proposed, 0);
          EXPECT_GT(of_drawn.accepted, 0);
        }
      }
    }
  }
  EXPECT_GT(accepted, 0) << "of n-grams";
}

TEST(Speculate, takes_a_pass_for_each_run_of_accepted_tokens) {
  DraftedModel model(drafted.llama(), {.positions = 100, .rows = 16});
  const std::vector<DraftedTokens> prompts{{5, 1, 3}};
  const nn::GenerateOptions way{.tokens = 21, .temperature = 0.9, .seed = 1};
  const KnownTexts texts(prompts, nn::generate(*model, std::span<const DraftedTokens>(prompts), way));
  ToldDraft right([&](std::size_t text, std::size_t place) { return texts.at(text, place); });
  // The prompt gives one token, and each pass behind it four.
  const auto by_three = nn::speculate(*model, right, std::span<const DraftedTokens>(prompts), {.tokens = 3}, way);
  EXPECT_EQ(by_three.passes, 1 + 20 / 4);
  EXPECT_EQ(by_three.accepted, 15);
  // No pass computes more tokens than are left.
  const auto by_many = nn::speculate(*model, right, std::span<const DraftedTokens>(prompts), {.tokens = 50}, way);
  EXPECT_EQ(by_many.passes, 2);
  EXPECT_EQ(by_many.proposed, 19);
}

TEST(Speculate, ends_inside_an_accepted_run) {
  DraftedModel model(drafted.gpt(), {.positions = 100, .sequences = 3, .rows = 16});
  nn::GenerateOptions way{.tokens = 30, .temperature = 0.9, .top_k = 0, .seed = 3};
  const std::span<const DraftedTokens> prompts(drafted_prompts());
  const auto whole = nn::generate(*model, prompts, way);
  const KnownTexts texts(drafted_prompts(), whole);
  ToldDraft right([&](std::size_t text, std::size_t place) { return texts.at(text, place); });
  // By a token that ends a text.
  way.ends = {whole[0].tokens[6], whole[1].tokens[8]};
  const auto ended = nn::generate(*model, prompts, way);
  EXPECT_LE(ended[0].tokens.size(), 7U);
  for (const std::int64_t d : {1, 5, 20}) {
    std::vector<DraftedTokens> told(prompts.size());
    const auto tell = [&](std::size_t i, std::int32_t token) {
      told[i].push_back(token);
      return true;
    };
    const auto found = nn::speculate(*model, right, prompts, {.tokens = d}, way, tell);
    expect_same_texts(found.continuations, ended);
    for (std::size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i], ended[i].tokens);
  }
  // By the caller.
  way.ends.clear();
  for (const std::size_t last : {std::size_t{1}, std::size_t{4}, std::size_t{9}}) {
    std::vector<DraftedTokens> told(prompts.size());
    const auto tell = [&](std::size_t i, std::int32_t token) {
      told[i].push_back(token);
      return i != 1 || told[i].size() < last;
    };
    const auto found = nn::speculate(*model, right, prompts, {.tokens = 6}, way, tell);
    EXPECT_EQ(told[1].size(), last);
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(found.continuations[i].tokens, told[i]);
      EXPECT_EQ(told[i], DraftedTokens(whole[i].tokens.begin(), whole[i].tokens.begin() + std::ssize(told[i])));
    }
  }
  // And where it is told not to go on.
  int passes = 0;
  way.proceed = [&] { return passes++ < 3; };
  const auto stopped = nn::speculate(*model, right, prompts.first(1), {.tokens = 4}, way);
  EXPECT_EQ(stopped.passes, 3);
  EXPECT_EQ(stopped.continuations[0].tokens.size(), 11U);
}

TEST(Speculate, takes_no_more_positions_than_plain_decoding) {
  const nn::GenerateOptions way{.tokens = 25, .temperature = 0.9, .seed = 3};
  const std::vector<DraftedTokens> prompts{{5, 1, 3, 2}};
  // As many as plain decoding needs: the last token is not computed with.
  DraftedModel model(drafted.neox(), {.positions = 4 + 25 - 1, .rows = 16});
  const auto wanted = nn::generate(*model, std::span<const DraftedTokens>(prompts), way);
  const KnownTexts texts(prompts, wanted);
  ToldDraft right([&](std::size_t text, std::size_t place) { return texts.at(text, place); });
  for (const std::int64_t d : {1, 7, 40}) {
    const auto found = nn::speculate(*model, right, std::span<const DraftedTokens>(prompts), {.tokens = d}, way);
    expect_same_texts(found.continuations, wanted);
    EXPECT_GT(found.accepted, 0);
  }
}

TEST(Speculate, fails_at_the_token_at_which_plain_decoding_does_where_the_context_ends) {
  const nn::GenerateOptions way{.tokens = 40, .temperature = 0.9, .seed = 3};
  const std::vector<DraftedTokens> prompts{{5, 1, 3, 2}};
  DraftedModel model(drafted.llama(), {.positions = 20, .rows = 16});
  const auto told_by = [&](const auto& generate) {
    DraftedTokens told;
    EXPECT_THROW(generate([&](std::size_t, std::int32_t token) {
                   told.push_back(token);
                   return true;
                 }),
                 OptionError);
    return told;
  };
  const DraftedTokens wanted = told_by([&](const nn::OnToken& on_token) {
    nn::generate(*model, std::span<const DraftedTokens>(prompts), way, on_token);
  });
  EXPECT_EQ(wanted.size(), 17U);
  const KnownTexts texts(prompts, {{wanted, {}}});
  ToldDraft right([&](std::size_t text, std::size_t place) { return texts.at(text, place); });
  for (const std::int64_t d : {1, 5, 30}) {
    EXPECT_EQ(told_by([&](const nn::OnToken& on_token) {
                nn::speculate(*model, right, std::span<const DraftedTokens>(prompts), {.tokens = d}, way, on_token);
              }),
              wanted);
  }
  EXPECT_EQ(model->free_positions(), 64) << "no sequence is left";
}

TEST(Speculate, goes_on_without_proposals_where_no_page_is_free_for_them) {
  // Two pages for two texts, of which the first ends before it needs a second one.
  DraftedModel model(drafted.gpt(), {.positions = 128, .sequences = 1, .rows = 16});
  const std::vector<DraftedTokens> prompts{DraftedTokens(60, 4), {1, 2}};
  const nn::GenerateOptions way{.tokens = 40, .temperature = 0.9, .seed = 2};
  const auto run = [&](const auto& generate) {
    std::size_t count = 0;
    return generate([&](std::size_t i, std::int32_t) { return i != 0 || ++count < 4; });
  };
  const auto wanted = run([&](const nn::OnToken& on_token) {
    return nn::generate(*model, std::span<const DraftedTokens>(prompts), way, on_token);
  });
  const KnownTexts texts(prompts, wanted);
  ToldDraft right([&](std::size_t text, std::size_t place) { return texts.at(text, place); });
  const auto found = run([&](const nn::OnToken& on_token) {
    return nn::speculate(*model, right, std::span<const DraftedTokens>(prompts), {.tokens = 8}, way, on_token);
  });
  expect_same_texts(found.continuations, wanted);
  EXPECT_GT(found.accepted, 0);
  EXPECT_EQ(model->free_positions(), 128);
}

TEST(Speculate, leaves_out_what_the_model_does_not_have_and_refuses_other_numbers_of_results) {
  DraftedModel model(drafted.gpt(), {.positions = 100, .sequences = 3, .rows = 16});
  const std::span<const DraftedTokens> prompts(drafted_prompts());
  const nn::GenerateOptions way{.tokens = 12, .temperature = 0.9, .seed = 3};
  const auto wanted = nn::generate(*model, prompts, way);
  const KnownTexts texts(drafted_prompts(), wanted);
  for (const std::int32_t outside : {-1, drafted_vocabulary, 1 << 30}) {
    ToldDraft odd([&](std::size_t text, std::size_t place) {
      return place % 3 == 0 ? outside : texts.at(text, place);
    });
    const auto found = nn::speculate(*model, odd, prompts, {.tokens = 5}, way);
    expect_same_texts(found.continuations, wanted);
    EXPECT_EQ(found.accepted, found.proposed);
    EXPECT_GT(found.accepted, 0);
  }
  struct Nothing {
    static std::vector<DraftedTokens> propose(std::span<const nn::DraftRequest>, const nn::GenerateOptions&) {
      return {};
    }
  } nothing;
  EXPECT_THROW(nn::speculate(*model, nothing, prompts, {.tokens = 2}, way), OptionError);
  EXPECT_THROW(nn::speculate(*model, nothing, prompts, {.tokens = -1}, way), OptionError);
  EXPECT_THROW(nn::speculate(*model, nothing, prompts, {.most = -1}, way), OptionError);
  nn::NgramDraft ngrams;
  EXPECT_THROW(nn::speculate(*model, ngrams, prompts, {}, {.temperature = -1}), OptionError);
  const std::vector<DraftedTokens> bad{{1}, {99}};
  EXPECT_THROW(nn::speculate(*model, ngrams, std::span<const DraftedTokens>(bad)), OptionError);
  EXPECT_EQ(model->free_positions(), 384);
  EXPECT_TRUE(nn::speculate(*model, ngrams, prompts.first(0)).continuations.empty());
  EXPECT_EQ(nn::speculate(*model, ngrams, prompts, {}, {.tokens = 0}).passes, 0);
}

TEST(ModelDraft, of_the_same_model_is_always_right_greedy_and_drawn) {
  DraftedModel model(drafted.llama(), {.positions = 100, .sequences = 3, .rows = 16});
  DraftedModel other(drafted.llama(), {.positions = 100, .sequences = 3, .rows = 5});
  const std::span<const DraftedTokens> prompts(drafted_prompts());
  nn::ModelDraft draft(*other, model->vocabulary());
  for (const nn::GenerateOptions& way : drafted_ways()) {
    const auto found = nn::speculate(*model, draft, prompts, {.tokens = 5}, way);
    expect_same_texts(found.continuations, nn::generate(*model, prompts, way));
    EXPECT_EQ(found.accepted, found.proposed);
    EXPECT_LE(found.passes, 7);
  }
}

TEST(ModelDraft, of_another_model_changes_no_bit_with_any_room) {
  DraftedModel model(drafted.gpt(), {.positions = 110, .sequences = 3, .rows = 16});
  const std::span<const DraftedTokens> prompts(drafted_prompts());
  for (const std::int64_t positions : {110, 72, 10}) {
    DraftedModel small(SmallLanguageModel{.layers = 1, .vocabulary = drafted_vocabulary}.gpt(), {.positions = positions, .sequences = 3, .rows = 16});
    const std::int64_t all_free = small->free_positions();
    {
      nn::ModelDraft draft(*small, model->vocabulary());
      for (const nn::GenerateOptions& way : drafted_ways()) {
        for (const std::optional<std::int64_t> d : {std::optional<std::int64_t>(3), std::optional<std::int64_t>()}) {
          const auto found = nn::speculate(*model, draft, prompts, {.tokens = d}, way);
          expect_same_texts(found.continuations, nn::generate(*model, prompts, way));
          if (d) {
            EXPECT_GT(found.proposed, 0);
          }
        }
      }
    }
    EXPECT_EQ(small->free_positions(), all_free);
  }
}

TEST(ModelDraft, stops_behind_a_token_that_ends_a_text) {
  DraftedModel model(drafted.llama(), {.positions = 100, .rows = 16});
  DraftedModel other(drafted.llama(), {.positions = 100, .rows = 16});
  const std::vector<DraftedTokens> prompts{{5, 1, 3}};
  nn::GenerateOptions way{.tokens = 30, .temperature = 0.9, .top_k = 0, .seed = 3};
  const auto whole = nn::generate(*model, std::span<const DraftedTokens>(prompts), way);
  way.ends = {whole[0].tokens[5]};
  const auto wanted = nn::generate(*model, std::span<const DraftedTokens>(prompts), way);
  nn::ModelDraft draft(*other, model->vocabulary());
  const auto found = nn::speculate(*model, draft, std::span<const DraftedTokens>(prompts), {.tokens = 20}, way);
  expect_same_texts(found.continuations, wanted);
  EXPECT_EQ(found.proposed, std::ssize(wanted[0].tokens) - 1);
}

TEST(ModelDraft, refuses_a_model_of_other_tokens) {
  DraftedModel model(drafted.gpt(), {.positions = 100, .rows = 16});
  try {
    nn::ModelDraft draft(*model, drafted_vocabulary + 1);
    FAIL() << "13 tokens are not 14";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the draft has 13 tokens, the model 14"));
  }
}

}  // namespace
