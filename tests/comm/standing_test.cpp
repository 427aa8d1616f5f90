#include <reef/comm/detail/standing.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reef::comm::detail {

namespace {

using testing::ElementsAre;

constexpr std::uint64_t x = 11;
constexpr std::uint64_t y = 22;

Standing waits_for(std::vector<AwaitedRank> awaited) {
  return {.waits = true, .awaited = std::move(awaited)};
}
const Standing works{.works = true};
const Standing does_something_of_its_own{};

TEST(Standing, comes_back_from_its_bytes) {
  Standing one{.works = true, .waits = true, .awaited = {{x, 3}, {~y, 100000}}};
  EXPECT_EQ(decode_standing(encode(one)), one);
  EXPECT_EQ(decode_standing(encode({})), Standing{});
  for (std::size_t i = 0; i < 2 * Standing::most; ++i)
    one.awaited.push_back({x, static_cast<int>(i)});
  const Standing many = decode_standing(encode(one));
  EXPECT_EQ(many.awaited.size(), Standing::most);
  EXPECT_TRUE(many.more);
}

TEST(Standing, is_empty_where_bytes_are_none_of_one) {
  const std::string bytes = encode(waits_for({{x, 1}, {y, 2}}));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    if (size % 12 == 1) continue;
    EXPECT_EQ(decode_standing(bytes.substr(0, size)), Standing{}) << size << " bytes";
  }
}

TEST(Hold, of_a_rank_that_works_is_none) {
  const Hold hold = hold_of({waits_for({{x, 1}}), works}, 0, x);
  EXPECT_TRUE(hold.gets_on);
  EXPECT_THAT(hold.reached, ElementsAre(1));
}

TEST(Hold, of_who_waits_for_a_rank_that_works_is_none) {
  const std::vector<Standing> ranks{waits_for({{x, 1}}), waits_for({{y, 2}}), waits_for({{y, 3}}),
                                    works};
  EXPECT_TRUE(hold_of(ranks, 0, x).gets_on);
}

TEST(Hold, of_a_rank_that_does_something_of_its_own_is_open) {
  const Hold hold =
      hold_of({waits_for({{x, 1}}), waits_for({{y, 2}}), does_something_of_its_own}, 0, x);
  EXPECT_FALSE(hold.gets_on);
  EXPECT_FALSE(hold.closed);
  EXPECT_THAT(hold.reached, ElementsAre(1, 2));
}

TEST(Hold, of_ranks_that_wait_for_each_other_is_closed) {
  const std::vector<Standing> ranks{waits_for({{x, 1}}), waits_for({{y, 0}})};
  for (const int self : {0, 1}) {
    const Hold hold = hold_of(ranks, self, self == 0 ? x : y);
    EXPECT_FALSE(hold.gets_on) << "rank " << self;
    EXPECT_TRUE(hold.closed) << "rank " << self;
  }
}

TEST(Hold, of_a_rank_that_waits_in_a_ring_behind_it_is_closed) {
  const std::vector<Standing> ranks{waits_for({{x, 1}}), waits_for({{y, 2}}),
                                    waits_for({{x, 1}, {y + 1, 3}}), waits_for({{y + 2, 2}})};
  EXPECT_TRUE(hold_of(ranks, 0, x).closed);
}

TEST(Hold, of_an_operation_that_has_all_its_ranks_is_none_as_it_moves) {
  EXPECT_TRUE(hold_of({waits_for({{x, 1}}), waits_for({{x, 0}})}, 0, x).gets_on);
  // Somebody behind that operation is waited for elsewhere.
  EXPECT_TRUE(
      hold_of({waits_for({{y, 1}}), waits_for({{x, 2}}), waits_for({{x, 1}})}, 0, y).gets_on);
}

TEST(Hold, of_an_operation_that_lacks_one_of_its_ranks_is_that_of_this_rank) {
  // Ranks 0 and 1 are there, 2 is at another one.
  const std::vector<Standing> ranks{waits_for({{x, 1}, {x, 2}}), waits_for({{x, 2}}),
                                    waits_for({{y, 0}})};
  const Hold hold = hold_of(ranks, 0, x);
  EXPECT_FALSE(hold.gets_on);
  EXPECT_TRUE(hold.closed);
  EXPECT_TRUE(hold_of({ranks[0], ranks[1], works}, 0, x).gets_on);
}

TEST(Hold, of_a_rank_that_does_not_list_all_may_be_any) {
  Standing many = waits_for({{x, 1}});
  many.more = true;
  EXPECT_TRUE(hold_of({many, waits_for({{y, 0}}), works}, 0, x).gets_on);
  EXPECT_FALSE(hold_of({many, waits_for({{y, 0}}), does_something_of_its_own}, 0, x).closed);
  EXPECT_FALSE(hold_of({many, waits_for({{y, 0}})}, 0, x).closed)
      << "what it does not list may move";
}

TEST(Hold, ignores_ranks_that_are_not_there) {
  EXPECT_FALSE(hold_of({waits_for({{x, 1}}), waits_for({{y, 7}, {y, -1}})}, 0, x).gets_on);
}

}  // namespace

}  // namespace reef::comm::detail
