// Prompts and completions: what is read of a file, and what of them is a target.

#include <reef/data/pairs.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/io/atomic_file.hpp>

#include "../support/temporary_folder.hpp"
#include "filled_rows.hpp"

namespace reef::test {
namespace {

using data::PairSampler;
using data::TokenPair;

TEST(PairSampler, makes_targets_of_completions_alone) {
  const std::vector<TokenPair> pairs{
      {{1, 2, 3, 4}, 2}, {{5, 6}, 0}, {{7, 8, 9, 10, 11, 12, 13}, 4}};
  const PairSampler sampler(pairs, 5, 1);
  const FilledRows all = fill(sampler, 0, 4, 5, true);
  EXPECT_THAT(all.tokens,
              testing::ElementsAre(1, 2, 3, 4, 0, 5, 6, 0, 0, 0, 7, 8, 9, 10, 11, 0, 0, 0, 0, 0));
  EXPECT_THAT(all.targets, testing::ElementsAre(-1, 3, 4, -1, -1, 6, -1, -1, -1, -1, -1, -1, -1, 11,
                                                12, -1, -1, -1, -1, -1));
  EXPECT_EQ(all.counted, 5);
}

TEST(PairSampler, visits_each_pair_once_an_epoch_whatever_the_batch) {
  std::vector<TokenPair> pairs;
  for (std::int32_t i = 0; i < 7; ++i) pairs.push_back({{i, i + 100}, 1});
  const PairSampler sampler(pairs, 1, 3);
  std::set<std::vector<std::int32_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    const FilledRows once = fill(sampler, 7 * epoch, 7, 1, false);
    EXPECT_THAT(once.tokens, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6));
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_EQ(once.targets[i], once.tokens[i] + 100);
      EXPECT_EQ(fill(sampler, 7 * epoch + i, 1, 1, false).tokens[0], once.tokens[i]);
    }
    orders.insert(once.tokens);
  }
  EXPECT_GT(orders.size(), 1U);
}

TEST(PairSampler, refuses_a_prompt_that_leaves_no_place_for_a_target) {
  const auto make = [](std::vector<TokenPair> pairs, std::int64_t context) {
    PairSampler(pairs, context, 0);
  };
  EXPECT_THROW(make({}, 4), OptionError);
  EXPECT_THROW(make({{{1, 2, 3}, 3}}, 4), OptionError);
  EXPECT_THROW(make({{{1, 2, 3, 4, 5}, 4}}, 3), OptionError);
  EXPECT_THROW(make({{{1}, 0}}, 4), OptionError);
  EXPECT_NO_THROW(make({{{1, 2, 3, 4, 5}, 4}}, 4));
}

TEST(TextPairs, are_a_json_object_a_line_and_refused_by_file_line_and_member) {
  const TemporaryFolder folder;
  const auto file = folder / "pairs.jsonl";
  const auto refusal = [&](const std::string& text) -> std::string {
    io::write_atomically(file, text);
    try {
      (void)data::read_text_pairs(file);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal("{\"prompt\": \"a\", \"completion\": \"b\"}\n\n{\"completion\": \"\\u00e9\", "
                    "\"prompt\": \"\", \"id\": 3}"),
            "none");
  const auto read = data::read_text_pairs(file);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].prompt, "a");
  EXPECT_EQ(read[1].completion, "\xC3\xA9");
  EXPECT_THAT(
      refusal(
          "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": 3, \"completion\": \"b\"}\n"),
      testing::AllOf(testing::HasSubstr("line 2"), testing::HasSubstr("prompt")));
  EXPECT_THAT(refusal("{\"prompt\": \"a\"}"), testing::HasSubstr("completion"));
  EXPECT_THAT(refusal("{\"prompt\": \"a\", \"completion\": \"\"}"),
              testing::HasSubstr("the completion is empty"));
  EXPECT_THAT(refusal("[1]"), testing::HasSubstr("line 1"));
  EXPECT_THAT(refusal("\n\n"), testing::HasSubstr("has no pairs"));
}

}  // namespace
}  // namespace reef::test
