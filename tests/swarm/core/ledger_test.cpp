#include <reef/swarm/core/ledger.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/swarm/core/detail/draws.hpp>

namespace reef::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const PeerId a{"a", 1};
const PeerId b{"b", 1};
const PeerId c{"c", 1};

TEST(IndexRuns, say_what_they_were_made_of) {
  const std::vector<std::int64_t> indices{0, 3, 6, 9, 10, 12, 20};
  EXPECT_EQ(indices_of(runs_of(indices)), indices);
  EXPECT_THAT(runs_of(std::vector<std::int64_t>{1, 4, 7}), ElementsAre(IndexRun{1, 3, 3}));
  EXPECT_THAT(runs_of({}), IsEmpty());
}

TEST(IndexRuns, beyond_what_a_round_may_have_are_refused_before_memory_is_taken) {
  const std::vector<IndexRun> impossible[] = {
      {{0, 1, std::int64_t{1} << 40}}, {{-1, 1, 1}}, {{0, 0, 2}}, {{0, 1, 0}}, {{std::int64_t{1} << 62, 1, 1}},
      {{1, std::int64_t{1} << 52, 1 << 20}}, {{3, 1, 2}, {4, 1, 1}}};
  for (const auto& runs : impossible) EXPECT_THROW(static_cast<void>(indices_of(runs)), DecodeError) << runs[0].first;
}

TEST(IndexSet, is_a_set) {
  IndexSet set;
  std::set<std::int64_t> reference;
  core::detail::Draws draws(7);
  for (int i = 0; i < 4000; ++i) {
    const auto index = static_cast<std::int64_t>(draws.below(60));
    if (draws.below(2) == 0) {
      EXPECT_EQ(set.add(index), reference.insert(index).second);
    } else {
      EXPECT_EQ(set.remove(index), reference.erase(index) == 1);
    }
    EXPECT_EQ(set.count(), static_cast<std::int64_t>(reference.size()));
    EXPECT_EQ(set.end(), reference.empty() ? 0 : *reference.rbegin() + 1);
    for (std::int64_t k = 0; k < 60; ++k) EXPECT_EQ(set.contains(k), reference.contains(k));
    for (std::size_t r = 1; r < set.ranges().size(); ++r) EXPECT_LT(set.ranges()[r - 1].second, set.ranges()[r].first);
  }
}

TEST(Dealing, gives_each_index_to_one_member_and_holes_first) {
  Ledger ledger;
  ledger.commit(0, {{a, {{0, 2, 3}}, 3, {}}, {b, {{1, 1, 1}}, 1, {}}});  // 0, 2, 4 and 1
  const Dealing dealing = ledger.deal({a, b});
  EXPECT_EQ(dealing.index_of(a, 0), 3);  // the hole
  EXPECT_EQ(dealing.index_of(b, 0), 5);
  EXPECT_EQ(dealing.index_of(a, 1), 6);
  EXPECT_EQ(dealing.index_of(c, 0), std::nullopt);
  for (const PeerId& peer : {a, b}) {
    for (std::int64_t k = 0; k < 5; ++k) EXPECT_EQ(*dealing.taker_of(*dealing.index_of(peer, k)), peer);
  }
  EXPECT_EQ(dealing.taker_of(2), nullptr) << "it is committed";
}

TEST(Dealing, gives_what_has_failed_to_another_member_first) {
  for (const std::vector<std::int64_t>& failed : {std::vector<std::int64_t>{0}, {2}, {0, 1, 2, 3}, {1, 5}}) {
    std::map<std::int64_t, PeerId> with;
    for (const std::int64_t index : failed) with[index] = a;
    const Dealing dealing({a, b}, {0, 1, 2, 3, 5}, 7, with);
    std::set<std::int64_t> dealt;
    for (std::int64_t k = 0; k < 6; ++k) {
      for (const PeerId& peer : {a, b}) {
        const std::int64_t index = *dealing.index_of(peer, k);
        EXPECT_TRUE(dealt.insert(index).second) << index << " is dealt twice";
        EXPECT_EQ(*dealing.taker_of(index), peer);
        EXPECT_EQ(dealing.turn_of(index), k);
        EXPECT_TRUE(!with.contains(index) || peer == b) << index;
      }
    }
    for (const std::int64_t index : {0, 1, 2, 3, 5, 7, 8}) EXPECT_TRUE(dealt.contains(index)) << index;
    EXPECT_EQ(*dealing.index_of(b, 0), failed.front());
  }
  const Dealing alone({a}, {0, 1}, 2, {{1, a}});
  EXPECT_EQ(alone.index_of(a, 1), 1) << "nobody else is there";
}

TEST(Ledger, commits_no_index_twice) {
  Ledger ledger;
  ledger.commit(0, {{a, {{0, 1, 2}}, 2, {}}});
  EXPECT_THAT(ledger.refusal(std::vector<Share>{{b, {{1, 1, 1}}, 1, {}}}), HasSubstr("committed already"));
  EXPECT_THAT(ledger.refusal(std::vector<Share>{{a, {{2, 1, 1}}, 1, {}}, {b, {{2, 1, 1}}, 1, {}}}), HasSubstr("two"));
  EXPECT_THAT(ledger.quarantine(std::vector<IndexRun>{{0, 1, 1}}), HasSubstr("committed already"));
  EXPECT_THAT(ledger.quarantine(std::vector<IndexRun>{{3, 1, 1}}), IsEmpty());
  EXPECT_THAT(ledger.refusal(std::vector<Share>{{a, {{3, 1, 1}}, 1, {}}}), HasSubstr("quarantined"));
  EXPECT_EQ(ledger.deal({a}).index_of(a, 0), 2);
  EXPECT_EQ(ledger.deal({a}).index_of(a, 1), 4);
}

TEST(Ledger, adds_up_and_opens_what_is_rolled_back) {
  Ledger ledger;
  ledger.commit(0, {{a, {{0, 2, 2}}, 2, {}}});
  ledger.commit(1, {{b, {{5, 1, 2}}, 2, {}}});
  ledger.commit(2, {{b, {{7, 1, 1}}, 1, {}}}, false);  // not finite
  EXPECT_EQ(ledger.place_of(7).kind, Ledger::Place::Kind::open) << "which is retried once";
  ledger.commit(3, {{a, {{7, 1, 1}}, 0, {}, false}});
  EXPECT_EQ(ledger.committed().count() + ledger.quarantined().count() + static_cast<std::int64_t>(ledger.holes().size()),
            ledger.end());
  EXPECT_EQ(ledger.place_of(5).peer, b);
  EXPECT_EQ(ledger.place_of(5).round, 1);
  EXPECT_EQ(ledger.place_of(7).kind, Ledger::Place::Kind::quarantined);
  EXPECT_EQ(ledger.place_of(3).kind, Ledger::Place::Kind::open);
  ledger.roll_back(1);
  EXPECT_EQ(ledger.end(), 3);
  EXPECT_EQ(ledger.place_of(5).kind, Ledger::Place::Kind::open);
  EXPECT_THAT(ledger.holes(), ElementsAre(1));
}

TEST(Ledger, says_the_same_of_indices_when_settled_rounds_are_forgotten) {
  Ledger whole;
  whole.commit(0, {{a, {{0, 2, 2}}, 2, {}}, {b, {{3, 1, 1}}, 0, {}, false}});
  whole.commit(1, {{b, {{5, 1, 2}}, 2, {}}});
  EXPECT_THAT(whole.quarantine(std::vector<IndexRun>{{3, 1, 1}, {8, 1, 1}}), IsEmpty());
  whole.commit(2, {{a, {{9, 1, 1}}, 0, {}, false}, {b, {{10, 1, 1}}, 1, {}}});
  Ledger cut = whole;
  cut.settle(2);
  cut.forget(7);  // no more than what is settled
  EXPECT_EQ(cut.forgotten(), 2);
  ASSERT_EQ(cut.rounds().size(), 1U);
  EXPECT_EQ(cut.round(1), nullptr);
  EXPECT_EQ(*cut.round(2), whole.rounds()[2]);
  EXPECT_EQ(cut.round(3), nullptr);
  EXPECT_EQ(cut.tallies().at(a), (Ledger::Tally{1, 2}));
  EXPECT_EQ(cut.tallies().at(b), (Ledger::Tally{1, 2}));
  Ledger begun(2, whole.account_of(2), whole.withdrawn(), {whole.rounds()[2]});
  for (Ledger* ledger : {&whole, &cut, &begun}) {
    EXPECT_EQ(ledger->committed().count(), 5);
    EXPECT_EQ(ledger->quarantined().count(), 2);
    EXPECT_THAT(ledger->holes(), ElementsAre(1, 4, 7, 9));
    EXPECT_EQ(ledger->failed().count(9), 1U);
    EXPECT_EQ(ledger->failed().count(3), 0U) << "it is out of the job";
    EXPECT_EQ(ledger->place_of(0).kind, Ledger::Place::Kind::committed);
    ledger->roll_back(2);
    EXPECT_EQ(ledger->committed().count(), 4);
    EXPECT_EQ(ledger->end(), 9) << "what is taken out of the job stays so";
    EXPECT_EQ(ledger->failed().count(9), 0U);
  }
  EXPECT_EQ(cut.place_of(0).round, -1);
}

}  // namespace
}  // namespace reef::swarm
