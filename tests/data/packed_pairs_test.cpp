// Pairs that lie behind one another in rows.

#include <reef/data/packed_pairs.hpp>

#include <cstdint>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>

#include "filled_rows.hpp"

namespace reef::test {
namespace {

using data::PackedPairSampler;
using data::TokenPair;
using testing::ElementsAre;

TEST(PackedPairs, lie_behind_one_another_and_their_first_tokens_are_marked) {
  // Of 3, 1, 5 and 2 positions, the third cut to as many as a row has.
  const std::vector<TokenPair> pairs{{{1, 2, 3, 4}, 2}, {{5, 6}, 0}, {{7, 8, 9, 10, 11, 12, 13}, 4}, {{0, 3, 2}, 1}};
  EXPECT_THAT(data::packed_rows(pairs, 5), ElementsAre(ElementsAre(2), ElementsAre(0, 3), ElementsAre(1)));
  const PackedPairSampler sampler(pairs, 5, 1);
  EXPECT_EQ(sampler.rows(), 3);
  const FilledRows all = fill(sampler, 0, 4, 5, true);
  EXPECT_THAT(all.tokens, ElementsAre(7, 8, 9, 10, 11, 1, 2, 3, ~0, 3, 5, ~0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(all.targets, ElementsAre(-1, -1, -1, 11, 12, -1, 3, 4, 3, 2, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_EQ(all.counted, 7);
}

TEST(PackedPairs, are_each_in_one_row_that_has_room_for_it) {
  for (const std::int64_t T : {8, 13, 40}) {
    std::vector<TokenPair> pairs;
    for (std::size_t i = 0; i < 200; ++i) {
      pairs.push_back({std::vector<std::int32_t>(2 + i * i % 11, static_cast<std::int32_t>(i)), 1});
    }
    std::set<std::size_t> seen;
    std::size_t taken = 0;
    const auto rows = data::packed_rows(pairs, T);
    for (const auto& row : rows) {
      std::size_t length = 0;
      for (const std::size_t pair : row) {
        EXPECT_TRUE(seen.insert(pair).second) << pair;
        length += std::min(pairs[pair].tokens.size() - 1, static_cast<std::size_t>(T));
      }
      EXPECT_LE(length, static_cast<std::size_t>(T));
      taken += length;
    }
    EXPECT_EQ(seen.size(), pairs.size());
    // First fit decreasing needs at most 11/9 of the rows that are needed, and 1; best fit likewise.
    EXPECT_LE(static_cast<double>(rows.size()), 11.0 / 9 * static_cast<double>(taken) / static_cast<double>(T) + 2);
  }
}

TEST(PackedPairs, are_visited_once_an_epoch_whatever_the_batch) {
  std::vector<TokenPair> pairs;
  for (std::int32_t i = 0; i < 14; ++i) pairs.push_back({{i, i + 100}, 1});
  const PackedPairSampler sampler(pairs, 2, 3);
  ASSERT_EQ(sampler.rows(), 7);
  std::set<std::vector<std::int32_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    const FilledRows once = fill(sampler, 7 * epoch, 7, 2, false);
    EXPECT_EQ(once.counted, 14);
    std::set<std::int32_t> tokens;
    for (std::size_t i = 0; i < 14; ++i) {
      const std::int32_t token = i % 2 == 1 ? ~once.tokens[i] : once.tokens[i];
      EXPECT_TRUE(tokens.insert(token).second);
      EXPECT_EQ(once.targets[i], token + 100);
      EXPECT_EQ(fill(sampler, 7 * epoch + i / 2, 1, 2, false).tokens[i % 2], once.tokens[i]);
    }
    orders.insert(once.tokens);
  }
  EXPECT_GT(orders.size(), 1U);
}

TEST(PackedPairs, that_make_no_sample_are_refused) {
  const std::vector<TokenPair> none, no_completion{{{1, 2, 3}, 3}}, behind{{{1, 2, 3, 4, 5}, 4}};
  EXPECT_THROW(PackedPairSampler(none, 4, 0), OptionError);
  EXPECT_THROW(PackedPairSampler(no_completion, 4, 0), OptionError);
  EXPECT_THROW(PackedPairSampler(behind, 3, 0), OptionError);
  EXPECT_NO_THROW(PackedPairSampler(behind, 4, 0));
}

}  // namespace
}  // namespace reef::test
