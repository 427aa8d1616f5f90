// Drafts without a model: what n-grams propose, and how many tokens are worth a pass.

#include <reef/nn/draft.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/nn/draft_length.hpp>
#include <reef/nn/ngram_draft.hpp>

namespace reef::nn {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using DraftTokens = std::vector<std::int32_t>;

DraftTokens proposed(const NgramDraft& draft, const DraftTokens& text, std::int64_t most) {
  const DraftRequest request{0, text, most};
  return draft.propose({&request, 1}, {}).at(0);
}

TEST(NgramDraft, proposes_what_followed_the_longest_ngram_and_of_equal_ones_the_latest) {
  const NgramDraft draft;
  EXPECT_THAT(proposed(draft, {7, 1, 2, 3, 4, 1, 2}, 2), ElementsAre(3, 4));
  EXPECT_THAT(proposed(draft, {1, 2, 3, 9, 2, 4, 1, 2}, 1), ElementsAre(3)) << "two tokens before one that is later";
  EXPECT_THAT(proposed(draft, {1, 2, 3, 1, 2, 4, 1, 2}, 1), ElementsAre(4));
  EXPECT_THAT(proposed(draft, {1, 2, 3}, 5), IsEmpty());
  EXPECT_THAT(proposed(draft, {1}, 5), IsEmpty());
  EXPECT_THAT(proposed(draft, {}, 5), IsEmpty());
  EXPECT_THAT(proposed(draft, {1, 1}, 0), IsEmpty());
  EXPECT_THAT(proposed(NgramDraft(4, 2), {1, 5, 1}, 3), IsEmpty()) << "one token is too short";
}

TEST(NgramDraft, goes_on_behind_the_end_with_what_it_has_proposed) {
  EXPECT_THAT(proposed(NgramDraft(), {5, 9, 9}, 4), ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(proposed(NgramDraft(), {1, 2, 3, 1, 2, 3, 1}, 7), ElementsAre(2, 3, 1, 2, 3, 1, 2));
}

TEST(NgramDraft, is_what_a_search_finds_that_compares_all_places) {
  std::mt19937 random(3);
  for (int draw = 0; draw < 500; ++draw) {
    DraftTokens text(1 + random() % 40);
    for (auto& token : text) token = static_cast<std::int32_t>(random() % 3);
    const auto longest = static_cast<std::int64_t>(1 + random() % 5);
    DraftTokens wanted;
    const auto size = std::ssize(text);
    for (std::int64_t n = (std::min)(longest, size - 1); n >= 1 && wanted.empty(); --n) {
      for (std::int64_t end = size - 1; end >= n && wanted.empty(); --end) {
        if (!std::equal(text.end() - n, text.end(), text.begin() + (end - n))) continue;
        DraftTokens grown = text;
        for (std::int64_t k = 0; k < 6; ++k) grown.push_back(grown[static_cast<std::size_t>(end + k)]);
        wanted.assign(grown.begin() + size, grown.end());
      }
    }
    EXPECT_EQ(proposed(NgramDraft(longest), text, 6), wanted);
  }
}

TEST(NgramDraft, refuses_lengths_that_cannot_be) {
  EXPECT_THROW(NgramDraft(2, 3), OptionError);
  EXPECT_THROW(NgramDraft(2, 0), OptionError);
}

TEST(ExpectedTokens, are_the_mean_over_all_outcomes) {
  for (const double a : {0.0, 0.3, 0.9, 1.0}) {
    for (const std::int64_t d : {0, 1, 2, 5}) {
      double mean = 0;  // k proposals are right and the next one is not, or all are
      for (std::int64_t k = 0; k <= d; ++k)
        mean += static_cast<double>(k + 1) * std::pow(a, static_cast<double>(k)) * (k < d ? 1 - a : 1);
      EXPECT_NEAR(expected_tokens(a, d), mean, 1e-12) << a << ' ' << d;
    }
  }
}

TEST(BestDraftLength, gives_most_tokens_a_second) {
  for (const double a : {0.0, 0.2, 0.5, 0.8, 0.95, 1.0}) {
    for (const Seconds row : {0.0, 0.001, 0.02, 1.0}) {
      for (const Seconds draft : {0.0, 0.003, 0.5}) {
        const auto seconds = [&](std::int64_t d) {
          return 0.05 + row * static_cast<double>(d + 1) + draft * static_cast<double>(d);
        };
        const std::int64_t best = best_draft_length(a, 12, seconds);
        const auto rate = [&](std::int64_t d) { return expected_tokens(a, d) / seconds(d); };
        for (std::int64_t d = 0; d <= 12; ++d) {
          EXPECT_GE(rate(best), rate(d)) << a << ' ' << row << ' ' << draft << ' ' << d;
          if (d < best) {
            EXPECT_GT(rate(best), rate(d)) << "of equal ones the smallest";
          }
        }
      }
    }
  }
  const auto same = [](std::int64_t) { return 1.0; };
  EXPECT_EQ(best_draft_length(0, 9, same), 0) << "no proposal is ever right";
  EXPECT_EQ(best_draft_length(1, 9, same), 9) << "all are right, and rows cost nothing";
  EXPECT_EQ(best_draft_length(1, 9, [](std::int64_t d) { return 1.0 + static_cast<double>(d); }), 0)
      << "a row costs as much as a pass";
}

TEST(BestDraftLength, grows_with_acceptance_and_with_the_time_of_a_pass) {
  std::int64_t before = 0;
  for (const double a : {0.1, 0.4, 0.6, 0.8, 0.9, 0.99}) {
    const std::int64_t d =
        best_draft_length(a, 64, [](std::int64_t k) { return 0.05 + 0.005 * static_cast<double>(k + 1); });
    EXPECT_GE(d, before);
    before = d;
  }
  EXPECT_GT(before, 4);
  before = 0;
  for (const Seconds base : {0.0, 0.01, 0.05, 0.3, 2.0}) {
    const std::int64_t d =
        best_draft_length(0.7, 64, [&](std::int64_t k) { return base + 0.01 * static_cast<double>(k + 1); });
    EXPECT_GE(d, before);
    before = d;
  }
  EXPECT_GT(before, 4);
}

/// Gives a pace the outcomes of passes whose times are known, and returns the last choices, the latest last.
std::vector<std::int64_t> choices(DraftPace& pace, double acceptance, Seconds base, Seconds row, Seconds draft,
                                  int passes, std::int64_t texts = 1) {
  std::mt19937 random(5);
  std::bernoulli_distribution is_right(acceptance);
  std::vector<std::int64_t> chosen;
  for (int pass = 0; pass < passes; ++pass) {
    const std::int64_t d = pace.next(texts);
    chosen.push_back(d);
    // A draft does not always have as many.
    const std::int64_t have = pass % 5 == 0 ? d / 2 : d;
    pace.drafted(have, draft * static_cast<double>(have));
    pace.computed(texts * (have + 1), base + row * static_cast<double>(texts * (have + 1)));
    for (std::int64_t i = 0; i < texts; ++i) {
      std::int64_t right = 0;
      while (right < have && is_right(random)) ++right;
      pace.checked(have, right);
    }
  }
  return chosen;
}

TEST(DraftPace, finds_the_times_and_chooses_by_them) {
  for (const std::int64_t texts : {1, 5}) {
    for (const double a : {0.3, 0.6, 0.9}) {
      for (const Seconds row : {0.0005, 0.01}) {
        DraftPace pace(16);
        choices(pace, a, 0.05, row, 0.002, 200, texts);
        for (const std::int64_t d : {0, 1, 4, 9}) {
          const Seconds exact = 0.05 + row * static_cast<double>(texts * (d + 1)) + 0.002 * static_cast<double>(d);
          EXPECT_NEAR(pace.seconds(texts, d), exact, 1e-6);
        }
        EXPECT_NEAR(pace.acceptance(), a, 0.35);
        EXPECT_EQ(pace.next(texts),
                  best_draft_length(pace.acceptance(), 16, [&](std::int64_t d) { return pace.seconds(texts, d); }));
      }
    }
  }
}

TEST(DraftPace, proposes_little_where_it_does_not_pay_and_notices_when_it_does) {
  DraftPace pace(16);
  const auto worthless = choices(pace, 0, 0.01, 0.01, 0.01, 200);
  const auto settled = std::span(worthless).subspan(40);
  EXPECT_THAT(settled, testing::Each(testing::Le(1))) << "but for probes, of one token";
  EXPECT_GT(std::count(settled.begin(), settled.end(), 0), 140);
  EXPECT_GT(std::count(settled.begin(), settled.end(), 1), 2);
  const auto useful = choices(pace, 1, 1.0, 0.001, 0, 1000);
  EXPECT_EQ(useful.back(), 16);
}

TEST(DraftPace, proposes_no_more_than_the_most) {
  DraftPace none(0);
  for (const std::int64_t d : choices(none, 1, 1, 0, 0, 50)) EXPECT_EQ(d, 0);
  DraftPace few(2);
  for (const std::int64_t d : choices(few, 1, 1, 0, 0, 50)) EXPECT_LE(d, 2);
}

}  // namespace
}  // namespace reef::nn
