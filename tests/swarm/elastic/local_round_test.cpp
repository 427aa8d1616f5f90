// Rounds among members of one process, without a Trainer.

#include <reef/swarm/elastic/local_round.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>

namespace reef::test {
namespace {

using swarm::Contribution;
using swarm::LocalRound;
using swarm::RoundExchange;
using swarm::RoundOutcome;
using Sum = std::vector<float>;
using testing::ElementsAre;

/// Begins a round, and takes all that a member is dealt.
std::vector<std::int64_t> taken(RoundExchange& member) {
  member.begin(0);
  std::vector<std::int64_t> numbers;
  while (const std::optional<std::int64_t> next = member.next_micro_batch()) numbers.push_back(*next);
  return numbers;
}

void offer(RoundExchange& member, const Sum& gradient, double weight = 1, std::vector<std::int64_t> numbers = {0}) {
  member.offer({gradient, weight, 2 * weight, std::move(numbers)});
}

/// The sum of a round and its outcome.
std::pair<Sum, RoundOutcome> result_of(RoundExchange& member, std::size_t elements = 2) {
  Sum sum(elements, -1);
  RoundOutcome outcome = member.result(sum);
  return {sum, outcome};
}

}  // namespace

TEST(LocalRound, deals_in_turns_to_those_who_are_to_have_more) {
  LocalRound round(3, LocalRound::in_turns({3, 1, 2}));
  EXPECT_THAT(taken(round.member(1)), ElementsAre(1));
  EXPECT_THAT(taken(round.member(0)), ElementsAre(0, 3, 5));
  EXPECT_THAT(taken(round.member(2)), ElementsAre(2, 4));
  EXPECT_THAT(taken(round.member(0)), ElementsAre(6, 9, 11));
  EXPECT_THAT(taken(round.member(2)), ElementsAre(8, 10));
  EXPECT_THAT(taken(round.member(1)), ElementsAre(7));
}

TEST(LocalRound, adds_contributions_in_the_order_of_members_whoever_is_first) {
  // In another order the small numbers would not be lost.
  LocalRound round(3, LocalRound::in_turns({1, 1, 1}));
  for (int m = 0; m < 3; ++m) taken(round.member(m));
  offer(round.member(2), {-1e8F, 3});
  offer(round.member(0), {1e8F, 1}, 2, {4, 5});
  offer(round.member(1), {1, 2});
  for (int m = 0; m < 3; ++m) {
    const auto [sum, outcome] = result_of(round.member(m));
    EXPECT_THAT(sum, ElementsAre(0, 6));
    EXPECT_EQ(outcome.verdict, RoundOutcome::Verdict::apply);
    EXPECT_EQ(outcome.weight, 4);
    EXPECT_EQ(outcome.weighted_loss, 8);
    EXPECT_EQ(outcome.micro_batches, 4);
    EXPECT_THAT(outcome.contributors, ElementsAre(0, 1, 2));
  }
}

TEST(LocalRound, leaves_out_who_has_computed_nothing_and_skips_what_is_of_no_use) {
  LocalRound round(2, LocalRound::in_turns({1, 1}));
  const auto next = [&](const Sum& first, const Sum& second, double weight, std::vector<std::int64_t> numbers) {
    for (int m = 0; m < 2; ++m) taken(round.member(m));
    offer(round.member(0), first, weight, numbers);
    offer(round.member(1), second, 0, {});
    const auto one = result_of(round.member(0));
    const auto two = result_of(round.member(1));
    EXPECT_EQ(one.second.verdict, two.second.verdict);
    return one;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto [sum, outcome] = next({1, 2}, {nan, 5}, 1, {7});
  EXPECT_THAT(sum, ElementsAre(1, 2));
  EXPECT_THAT(outcome.contributors, ElementsAre(0));
  EXPECT_EQ(next({nan, 2}, {0, 0}, 1, {7}).second.verdict, RoundOutcome::Verdict::skip);
  EXPECT_EQ(next({1, 2}, {0, 0}, 0, {7}).second.verdict, RoundOutcome::Verdict::skip);
  EXPECT_EQ(next({1, 2}, {0, 0}, 0, {}).second.verdict, RoundOutcome::Verdict::skip);
  EXPECT_EQ(next({1, 2}, {0, 0}, 1, {7}).second.verdict, RoundOutcome::Verdict::apply);
}

TEST(LocalRound, waits_for_nobody_who_has_left_and_ends_the_wait_of_who_leaves) {
  LocalRound round(3, LocalRound::in_turns({1, 1, 1}));
  for (int m = 0; m < 3; ++m) taken(round.member(m));
  offer(round.member(0), {1, 2});
  offer(round.member(2), {3, 4});
  bool threw = false;
  {
    std::jthread waiting([&] {
      try {
        result_of(round.member(2));
      } catch (const Error&) {
        threw = true;
      }
    });
    round.member(2).interrupt();  // its offer stands
  }
  EXPECT_TRUE(threw);
  std::jthread other([&] { round.leave(1); });
  EXPECT_THAT(result_of(round.member(0)).first, ElementsAre(4, 6));
  other.join();
  taken(round.member(0));
  offer(round.member(0), {5, 6});
  EXPECT_THAT(result_of(round.member(0)).first, ElementsAre(5, 6));
  EXPECT_THROW(result_of(round.member(1)), Error);
}

TEST(LocalRound, lets_a_member_go_on_while_another_has_yet_to_read) {
  LocalRound round(2, LocalRound::in_turns({1, 1}));
  for (int m = 0; m < 2; ++m) taken(round.member(m));
  offer(round.member(0), {1, 1});
  offer(round.member(1), {2, 2});
  EXPECT_THAT(result_of(round.member(0)).first, ElementsAre(3, 3));
  taken(round.member(0));
  offer(round.member(0), {10, 10});
  EXPECT_THAT(result_of(round.member(1)).first, ElementsAre(3, 3));
  taken(round.member(1));
  offer(round.member(1), {20, 20});
  EXPECT_THAT(result_of(round.member(0)).first, ElementsAre(30, 30));
}

TEST(LocalRound, refuses_members_of_different_models) {
  EXPECT_THROW(LocalRound(0, LocalRound::in_turns({})), OptionError);
  EXPECT_THROW(LocalRound(1, {}), OptionError);
  LocalRound round(2, LocalRound::in_turns({1, 1}));
  for (int m = 0; m < 2; ++m) taken(round.member(m));
  offer(round.member(0), {1, 2});
  EXPECT_THAT([&] { offer(round.member(1), {1, 2, 3}); },
              testing::ThrowsMessage<OptionError>(testing::HasSubstr("3 numbers")));
  offer(round.member(1), {1, 2});
  EXPECT_THAT([&] { result_of(round.member(0), 3); },
              testing::ThrowsMessage<OptionError>(testing::HasSubstr("room for 3")));
}

}  // namespace reef::test
