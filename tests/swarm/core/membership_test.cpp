#include <reef/swarm/core/membership.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/swarm/core/failure_detector.hpp>
#include <reef/swarm/core/pieces.hpp>

namespace reef::swarm {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

PeerId peer(char name) { return {std::string(1, name), 1}; }
Member member(char name) { return {peer(name), "", 0, 0}; }
std::vector<PeerId> peers(const std::string& names) {
  std::vector<PeerId> ids;
  for (const char name : names) ids.push_back(peer(name));
  return ids;
}
std::vector<Member> members(const std::string& names) {
  std::vector<Member> all;
  for (const char name : names) all.push_back(member(name));
  return all;
}
PeerPresence present(char name, const std::string& reach, bool joins = false, std::int64_t applied = 0) {
  return {member(name), peers(reach), joins, applied};
}
std::string names_of(const std::optional<std::vector<Member>>& view) {
  std::string names;
  for (const Member& one : view.value_or(members("?"))) names += one.id.name;
  return names;
}

TEST(LargestMutualSet, needs_both_to_hear_each_other) {
  EXPECT_EQ(largest_mutual_set(std::vector{present('a', "bc"), present('b', "ac"), present('c', "b")}), peers("ab"));
  EXPECT_EQ(largest_mutual_set(std::vector{present('b', "c"), present('c', "b"), present('a', "")}), peers("bc"));
  EXPECT_EQ(largest_mutual_set(std::vector{present('d', "c"), present('c', "d"), present('a', "b"), present('b', "a")}),
            peers("ab")) << "the lowest of two as large";
  EXPECT_TRUE(largest_mutual_set({}).empty());
}

TEST(LargestMutualSet, of_64_with_one_that_nobody_hears_is_the_63) {
  std::vector<PeerPresence> all;
  std::vector<PeerId> ids;
  for (int i = 0; i < 64; ++i) ids.push_back({"p" + std::to_string(100 + i), 1});
  for (int i = 0; i < 64; ++i) {
    PeerPresence one{{ids[static_cast<std::size_t>(i)], "", 0, 0}, {}, false, 0};
    for (const PeerId& id : ids) {
      if (id != one.who.id && id != ids[5] && i != 5) one.reach.push_back(id);
    }
    all.push_back(one);
  }
  EXPECT_EQ(largest_mutual_set(all).size(), 63U);
}

TEST(NextView, leaves_out_who_is_not_heard) {
  EXPECT_EQ(names_of(next_view(members("abc"), std::vector{present('a', "b"), present('b', "a"), present('c', "ab")}, 0)), "ab");
  EXPECT_EQ(next_view(members("abc"), std::vector{present('a', "bc"), present('b', "ac"), present('c', "ab")}, 0), std::nullopt);
}

TEST(NextView, of_two_halves_is_the_larger_and_of_equal_ones_that_of_the_lowest) {
  EXPECT_EQ(names_of(next_view(members("abc"), std::vector{present('a', ""), present('b', "c"), present('c', "b")}, 0)), "bc");
  EXPECT_EQ(names_of(next_view(members("ab"), std::vector{present('a', ""), present('b', "")}, 0)), "a");
  EXPECT_EQ(names_of(next_view(members("abcd"), std::vector{present('c', "d"), present('d', "c"), present('a', "b"), present('b', "a")}, 0)), "ab");
}

TEST(NextView, takes_in_who_is_heard_by_all_and_has_the_newest_weights) {
  const auto view = [](const PeerPresence& d) {
    return next_view(members("ab"), std::vector{present('a', "bd"), present('b', "ad"), d}, 3);
  };
  EXPECT_EQ(names_of(view(present('d', "ab", true, 3))), "abd");
  EXPECT_EQ(view(present('d', "ab", true, 2)), std::nullopt);
  EXPECT_EQ(view(present('d', "a", true, 3)), std::nullopt);
  EXPECT_EQ(view(present('d', "ab", false, 3)), std::nullopt);
}

TEST(NextView, is_of_those_who_join_if_no_member_is_present) {
  EXPECT_EQ(names_of(next_view({}, std::vector{present('b', "c", true), present('c', "b", true)}, 0)), "bc");
  EXPECT_EQ(names_of(next_view(members("a"), std::vector{present('b', "", true, 2)}, 2)), "b");
  EXPECT_EQ(next_view(members("a"), std::vector{present('b', "", true, 1)}, 2), std::nullopt);
}

TEST(FailureDetector, suspects_the_silent_and_the_lost_and_forgives) {
  FailureDetector detector({.beat = 0.25, .suspect = 2});
  EXPECT_TRUE(detector.suspects(peer('a'), 0)) << "it was never heard";
  detector.heard(peer('a'), 1);
  EXPECT_FALSE(detector.suspects(peer('a'), 3));
  EXPECT_TRUE(detector.suspects(peer('a'), 3.01));
  detector.heard(peer('a'), 4);
  detector.lost(peer('a'));
  EXPECT_TRUE(detector.suspects(peer('a'), 4));
  detector.heard(peer('a'), 5);
  EXPECT_FALSE(detector.suspects(peer('a'), 5));
  EXPECT_THAT(detector.reached(5), ElementsAre(peer('a')));
}

TEST(FailureDetector, says_that_a_peer_is_stalled_which_answers_and_makes_no_progress) {
  FailureDetector detector({.beat = 0.25, .suspect = 2});
  double now = 0;
  for (int step = 0; step < 10; ++step) detector.progressed(peer('a'), now += 3);
  EXPECT_FALSE(detector.stalled(peer('a'), now + 2.9)) << "it takes 3 s a step";
  for (int beat = 0; beat < 20; ++beat) detector.heard(peer('a'), now += 0.25);
  EXPECT_TRUE(detector.stalled(peer('a'), now));
  EXPECT_FALSE(detector.suspects(peer('a'), now));
}

TEST(DurationWindow, bounds_by_the_median_and_the_deviation_from_it) {
  DurationWindow window(5);
  EXPECT_EQ(window.bound(4), 0);
  for (const double duration : {100.0, 1.0, 2.0, 3.0, 4.0, 50.0}) window.add(duration);  // 100 has gone
  EXPECT_EQ(window.bound(0), 3);
  EXPECT_EQ(window.bound(2), 3 + 2 * 1);
}

TEST(Deadlines, are_refused_in_a_wrong_order) {
  EXPECT_NO_THROW(Deadlines{}.validate());
  EXPECT_THROW((Deadlines{.beat = 3, .suspect = 2}.validate()), OptionError);
  EXPECT_THROW((Deadlines{.suspect = 40, .exchange = 30}.validate()), OptionError);
  EXPECT_THROW((Deadlines{.round = 600, .job = 60}.validate()), OptionError);
}

TEST(ReductionShares, make_the_slowest_member_soonest_done) {
  const auto makespan = [](const std::vector<double>& b) {
    const std::vector<double> shares = reduction_shares(b);
    double longest = 0;
    double sum = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      EXPECT_GE(shares[i], 0);
      longest = (std::max)(longest, (1 + (static_cast<double>(b.size()) - 2) * shares[i]) / b[i]);
      sum += shares[i];
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    return longest;
  };
  EXPECT_THAT(makespan({10, 20, 30, 40}), DoubleNear(0.1, 1e-12));  // that of the slowest's own traffic
  EXPECT_THAT(makespan({5, 5, 5, 5}), DoubleNear(1.5 / 5, 1e-12));
  EXPECT_THAT(makespan({8, 9, 10}), DoubleNear((1.0 + 3) / 27, 1e-12));
  EXPECT_THAT(reduction_shares(std::vector<double>{0, 0, 0, 0}), Each(DoubleNear(0.25, 1e-12))) << "none is known";
}

TEST(Pieces, are_split_by_largest_remainder_and_stay_with_their_reducers) {
  EXPECT_THAT(split_pieces(10, std::vector<double>{1, 1, 1}), ElementsAre(4, 3, 3));
  EXPECT_THAT(split_pieces(2, std::vector<double>{0.1, 0.9}), ElementsAre(0, 2));
  const std::vector<PeerId> three = assign_reducers({}, members("abc"), 9);
  const std::vector<PeerId> two = assign_reducers(three, members("ac"), 9);
  for (std::size_t piece = 0; piece < 9; ++piece) {
    if (three[piece] != peer('b')) {
      EXPECT_EQ(two[piece], three[piece]);
    }
    EXPECT_NE(two[piece], peer('b'));
  }
  const std::vector<PeerId> four = assign_reducers(two, members("acde"), 9);
  int moved = 0;
  for (std::size_t piece = 0; piece < 9; ++piece) moved += four[piece] != two[piece] ? 1 : 0;
  EXPECT_EQ(moved, 4) << "what the two newcomers get, and no more";
}

TEST(Pieces, of_the_fastest_reducer_have_no_more_parts_than_a_model) {
  std::vector<Member> some = members("abcdefgh");
  some[3].up = some[3].down = 1e9;
  for (Member& member : some) member.up = member.down = member.up > 0 ? member.up : 1e6;
  for (const std::int64_t pieces : {7, 8, 16, 40, 473}) {
    SCOPED_TRACE(pieces);
    const std::vector<PeerId> reducers = assign_reducers({}, some, pieces);
    std::vector<std::int64_t> counts;
    for (const Member& member : some) counts.push_back(std::count(reducers.begin(), reducers.end(), member.id));
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), pieces);
    const std::int64_t most = *std::max_element(counts.begin(), counts.end());
    EXPECT_EQ(counts[3], most);
    EXPECT_LE(most, most_pieces_of_reducer(pieces, 8));
  }
  EXPECT_LE(most_pieces_of_reducer(473, 8) * 7, 473);
  EXPECT_EQ(most_pieces_of_reducer(16, 1), 16);
  EXPECT_EQ(most_pieces_of_reducer(16, 2), 16);
  EXPECT_EQ(most_pieces_of_reducer(3, 6), 1) << "fewer pieces than members";
}

}  // namespace
}  // namespace reef::swarm
