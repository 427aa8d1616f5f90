#include <reef/swarm/core/job_state.hpp>

#include <cstdint>
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/job_summary.hpp>

namespace reef::swarm::core {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const PeerId a{"a", 1};
const PeerId b{"b", 1};
const PeerId c{"c", 1};

Member member(const PeerId& id) { return {id, "127.0.0.1:1", 0, 0}; }
std::string append(JobState& state, const PeerId& author, Entry::What what) {
  return apply(state, {author, 0, std::move(what)});
}

/// A job of a, b and c that begins with round 0.
JobState job(std::int64_t checkpoint = 0) {
  JobState state;
  Genesis genesis;
  genesis.checkpoint = checkpoint;
  genesis.job = "job";
  genesis.global_batch = 4;
  genesis.parameters = 10;
  genesis.piece = 4;
  EXPECT_THAT(append(state, a, genesis), IsEmpty());
  EXPECT_THAT(append(state, a, ViewEntry{1, {member(a), member(b), member(c)}, ""}), IsEmpty());
  return state;
}

/// A commit of round 0: a has 0 and 3, b 1, c nothing.
Commit commit_of_first() {
  Commit commit;
  commit.epoch = 1;
  commit.shares = {{a, {{0, 3, 2}}, 2, {}}, {b, {{1, 1, 1}}, 1, {}}, {c, {}, 0, {}}};
  commit.holders = {a, b, c};
  return commit;
}

TEST(JobState, commits_a_round) {
  JobState state = job();
  EXPECT_THAT(append(state, b, commit_of_first()), IsEmpty());
  EXPECT_EQ(state.round(), 1);
  EXPECT_EQ(state.ledger.committed().count(), 3);
  EXPECT_EQ(state.dealing.index_of(a, 0), 2);
  EXPECT_EQ(state.reducers.size(), 3U);
  EXPECT_EQ(state.ignored, 0);
}

TEST(JobState, ignores_a_commit_that_breaks_a_rule) {
  struct Case {
    const char* says;
    void (*spoil)(Commit&);
  };
  const Case cases[] = {
      {"epoch", [](Commit& e) { e.epoch = 2; }},
      {"round", [](Commit& e) { e.round = 1; }},
      {"others than the contributors", [](Commit& e) { e.shares.pop_back(); }},
      {"others than the contributors", [](Commit& e) { e.shares[0].id.incarnation = 2; }},
      {"not dealt", [](Commit& e) { e.shares[0].indices = {{1, 1, 1}}; e.shares[1].indices = {}; }},
      {"two shares", [](Commit& e) { e.shares[1].indices = {{0, 1, 1}}; }},
      {"held by 1", [](Commit& e) { e.holders = {a}; e.stragglers = {b, c}; }},
      {"all members", [](Commit& e) { e.holders = {a, b}; }},
      {"not members", [](Commit& e) { e.holders = {a, b, {"d", 1}}; }},
      {"weight", [](Commit& e) { e.shares[0].weight = -1; }},
      {"not finite", [](Commit& e) { e.shares[0].finite = false; }},
      {"weight of 0", [](Commit& e) { for (Share& share : e.shares) share.weight = 0; }},
      {"beyond", [](Commit& e) { e.shares[0].indices = {{0, 1, std::int64_t{1} << 50}}; }},
  };
  for (const Case& one : cases) {
    JobState state = job();
    Commit commit = commit_of_first();
    one.spoil(commit);
    JobState before = state;
    EXPECT_THAT(append(state, a, commit), HasSubstr(one.says));
    ++before.entries;
    ++before.ignored;
    EXPECT_EQ(state, before) << one.says;
  }
  JobState state = job();
  EXPECT_THAT(append(state, {"d", 1}, commit_of_first()), HasSubstr("no member"));
}

TEST(JobState, counts_a_view_only_if_it_is_the_next_of_other_members) {
  JobState state = job();
  EXPECT_THAT(append(state, a, ViewEntry{3, {member(a)}, ""}), HasSubstr("epoch 3 after 1"));
  EXPECT_THAT(append(state, a, ViewEntry{2, {}, ""}), HasSubstr("nobody"));
  EXPECT_THAT(append(state, a, ViewEntry{2, {member(b), member(a)}, ""}), HasSubstr("ascending"));
  EXPECT_THAT(append(state, a, ViewEntry{2, {member(a), member({"a", 2})}, ""}), HasSubstr("two members"));
  EXPECT_THAT(append(state, a, ViewEntry{2, {member(a), member(b), member(c)}, ""}), HasSubstr("same members"));
  EXPECT_THAT(append(state, c, ViewEntry{2, {member(a)}, ""}), HasSubstr("not in it"));
  EXPECT_EQ(state.epoch, 1);
  EXPECT_THAT(append(state, c, ViewEntry{2, {member(a), member(b)}, "c leaves"}), IsEmpty());
  EXPECT_EQ(state.members.size(), 2U);
}

TEST(JobState, keeps_what_survivors_took_and_deals_the_rest_again_with_the_next_round) {
  JobState state = job();
  const Dealing before = state.dealing;
  EXPECT_THAT(append(state, a, ViewEntry{2, {member(a), member(b)}, ""}), IsEmpty());
  EXPECT_EQ(state.dealing, before) << "c had taken 2: nobody takes it in this round";
  Commit commit = commit_of_first();
  commit.epoch = 2;
  commit.shares.pop_back();
  commit.holders = {a, b};
  EXPECT_THAT(append(state, a, commit), IsEmpty());
  EXPECT_EQ(state.dealing.index_of(a, 0), 2);
}

TEST(JobState, begins_a_round_anew_if_nobody_is_left_of_those_to_whom_it_was_dealt) {
  JobState state = job();
  EXPECT_EQ(state.attempt, 1);
  EXPECT_THAT(append(state, {"d", 1}, ViewEntry{2, {member({"d", 1})}, ""}), IsEmpty());
  EXPECT_EQ(state.attempt, 2);
  EXPECT_EQ(state.dealing.index_of({"d", 1}, 0), 0);
}

TEST(JobState, excludes_only_some_of_the_contributors) {
  JobState state = job();
  EXPECT_THAT(append(state, a, Exclude{1, 0, {a, b, c}}), HasSubstr("not fewer"));
  EXPECT_THAT(append(state, a, Exclude{1, 0, {}}), HasSubstr("not fewer"));
  EXPECT_THAT(append(state, a, Exclude{1, 0, {a, {"d", 1}}}), HasSubstr("not fewer"));
  EXPECT_THAT(append(state, a, Exclude{1, 0, {a, b}}), IsEmpty());
  EXPECT_THAT(append(state, a, commit_of_first()), HasSubstr("others than the contributors"));
  Commit commit = commit_of_first();
  commit.shares.pop_back();
  EXPECT_THAT(append(state, a, commit), IsEmpty()) << "c still holds the result";
  EXPECT_EQ(state.targets().size(), 3U) << "and contributes to the next round";
}

/// A commit of the round that is next in `state`, in which each contributor has the first index that it is dealt. Those
/// of `failed` are not finite.
Commit commit_of_next(const JobState& state, const std::vector<PeerId>& failed) {
  Commit commit;
  commit.epoch = state.epoch;
  commit.round = state.round();
  commit.holders = state.member_ids();
  for (const PeerId& id : state.member_ids()) {
    const bool finite = std::find(failed.begin(), failed.end(), id) == failed.end();
    const std::int64_t index = *state.dealing.index_of(id, 0);
    commit.shares.push_back({id, {{index, 1, 1}}, finite ? 1.0 : 0.0, {}, finite});
  }
  return commit;
}

TEST(JobState, lets_another_peer_retry_what_was_not_finite_and_then_quarantines_it) {
  JobState state = job();
  EXPECT_THAT(append(state, a, commit_of_next(state, {b})), IsEmpty());
  EXPECT_EQ(state.round(), 1);
  EXPECT_EQ(state.ledger.committed().count(), 2) << "the others' indices count";
  EXPECT_EQ(state.ledger.quarantined().count(), 0);
  EXPECT_EQ(state.ledger.failed(), (std::map<std::int64_t, PeerId>{{1, b}}));
  EXPECT_EQ(state.dealing.index_of(a, 0), 1) << "which b had, is dealt to another";
  JobState good = state;
  EXPECT_THAT(append(good, a, commit_of_next(good, {})), IsEmpty());
  EXPECT_TRUE(good.ledger.committed().contains(1));
  EXPECT_TRUE(good.ledger.failed().empty());
  EXPECT_THAT(append(state, a, commit_of_next(state, {a})), IsEmpty());
  EXPECT_TRUE(state.ledger.quarantined().contains(1));
  EXPECT_TRUE(state.ledger.failed().empty());
  EXPECT_EQ(state.dealing.taker_of(1), nullptr);
  EXPECT_EQ(state.ledger.end(), 5);
}

TEST(JobState, retries_all_indices_of_a_round_whose_sum_is_not_finite) {
  JobState state = job();
  Commit commit = commit_of_next(state, {});
  commit.verdict.finite = false;
  EXPECT_THAT(append(state, a, commit), IsEmpty());
  EXPECT_EQ(state.round(), 1);
  EXPECT_EQ(state.ledger.committed().count(), 0);
  EXPECT_EQ(state.ledger.failed(), (std::map<std::int64_t, PeerId>{{0, a}, {1, b}, {2, c}}));
  commit = commit_of_next(state, {});  // a has 1 now, b has 0, and c 3, since no other index is left that c has not had
  commit.verdict.finite = false;
  EXPECT_THAT(append(state, a, commit), IsEmpty());
  EXPECT_EQ(state.ledger.quarantined().ranges(), (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 2}}));
  EXPECT_EQ(state.ledger.failed(), (std::map<std::int64_t, PeerId>{{2, c}, {3, c}}));
}

TEST(JobState, opens_what_was_quarantined_in_rounds_that_are_rolled_back) {
  JobState state = job();
  EXPECT_THAT(append(state, a, commit_of_next(state, {b})), IsEmpty());
  const Ledger before = state.ledger;
  EXPECT_THAT(append(state, a, commit_of_next(state, {a})), IsEmpty());
  EXPECT_EQ(state.ledger.quarantined().count(), 1);
  EXPECT_THAT(append(state, {"operator", 0}, Rollback{1, ""}), IsEmpty());
  EXPECT_EQ(state.ledger, before);
}

TEST(JobState, refuses_indices_that_no_member_takes_in_a_round) {
  const JobState state = job();
  constexpr std::int64_t far = std::int64_t{3} << 40;
  Commit commit = commit_of_next(state, {});
  commit.shares[0].indices = {{far, 1, 1}};  // dealt to a, long after this round
  JobState after = state;
  EXPECT_THAT(append(after, a, commit), HasSubstr("beyond"));
  EXPECT_THAT(append(after, a, Quarantine{{{far, 1, 1}}, ""}), HasSubstr("beyond"));
  EXPECT_THAT(append(after, a, Quarantine{{{4, 1, 1}}, ""}), IsEmpty());
  commit = commit_of_next(state, {});
  commit.shares[0].indices = {{0, 3, 1000}};
  EXPECT_THAT(append(after, a, commit), HasSubstr("more micro-batches of a/1"));
}

TEST(JobState, rolls_back_to_a_committed_round_and_then_has_no_view) {
  JobState state = job();
  EXPECT_THAT(append(state, a, commit_of_first()), IsEmpty());
  EXPECT_THAT(append(state, {"operator", 0}, Rollback{1, ""}), HasSubstr("not committed"));
  EXPECT_THAT(append(state, {"operator", 0}, Rollback{0, ""}), IsEmpty());
  EXPECT_EQ(state.round(), 0);
  EXPECT_EQ(state.lineage, 1);
  EXPECT_EQ(state.ledger.committed().count(), 0);
  EXPECT_THAT(append(state, a, commit_of_first()), HasSubstr("epoch"));
  EXPECT_THAT(append(state, b, ViewEntry{3, {member(b)}, ""}), IsEmpty());
}

TEST(JobState, checkpoints_are_held_by_enough_and_nothing_goes_back_behind_them) {
  JobState state = job(1);
  Digest root;
  root.bytes[0] = 7;
  EXPECT_THAT(append(state, a, LogCheckpoint{1, root, {a, b}}), HasSubstr("not committed"));
  ASSERT_THAT(append(state, a, commit_of_first()), IsEmpty());
  EXPECT_THAT(append(state, PeerId{"z", 1}, LogCheckpoint{1, root, {a, b}}), HasSubstr("no member"));
  EXPECT_THAT(append(state, a, LogCheckpoint{1, root, {a}}), HasSubstr("1 of 3 members hold"));
  EXPECT_THAT(append(state, a, LogCheckpoint{1, root, {b, a}}), HasSubstr("not ascending members"));
  EXPECT_FALSE(state.checkpoint);
  JobState without = job();
  ASSERT_THAT(append(without, a, commit_of_first()), IsEmpty());
  EXPECT_THAT(append(without, a, LogCheckpoint{1, root, {a, b}}), HasSubstr("the job has none"));
  EXPECT_THAT(append(state, b, LogCheckpoint{1, root, {a, b}}), IsEmpty());
  EXPECT_EQ(state.checkpoint->root, root);
  EXPECT_THAT(append(state, a, LogCheckpoint{1, root, {a, b}}), HasSubstr("before that after 1"));
  EXPECT_THAT(append(state, a, Rollback{0, "power"}), HasSubstr("behind the checkpoint after 1 rounds"));
}

TEST(JobState, begins_with_the_summary_of_a_checkpoint_and_goes_on_as_who_has_read_all) {
  JobState whole = job(1);
  ASSERT_THAT(append(whole, a, Quarantine{{{7, 1, 1}}, "nan"}), IsEmpty());
  ASSERT_THAT(append(whole, a, commit_of_first()), IsEmpty());
  LogCheckpoint checkpoint{1, {}, {a, b}, summary_of(whole, 1)};
  JobState begun = state_of(checkpoint.summary);
  EXPECT_EQ(begun.entries, whole.entries);
  EXPECT_EQ(begun.round(), 1);
  EXPECT_EQ(begun.dealing, whole.dealing);
  EXPECT_EQ(begun.reducers, whole.reducers);
  checkpoint.summary.back() = ' ';
  JobState other = whole;
  EXPECT_THAT(append(other, a, checkpoint), HasSubstr("another summary"));
  checkpoint.summary = summary_of(whole, 1);
  for (JobState* state : {&whole, &begun}) {
    EXPECT_THAT(append(*state, a, checkpoint), IsEmpty());
    state->forget(1);
    EXPECT_EQ(state->forgotten, 1);
    EXPECT_EQ(state->decided(0), nullptr);
    EXPECT_EQ(state->applied_of(1), 1);
    Commit commit = commit_of_first();
    commit.round = 1;
    commit.shares = {{a, {{2, 1, 1}}, 1, {}}, {b, {}, 0, {}}, {c, {}, 0, {}}};
    EXPECT_THAT(append(*state, b, commit), IsEmpty());
    EXPECT_EQ(state->round(), 2);
    EXPECT_THAT(append(*state, a, Rollback{0, "power"}), HasSubstr("behind the checkpoint"));
  }
  EXPECT_EQ(summary_of(begun, 1), summary_of(whole, 1));
  for (JobState* state : {&whole, &begun}) EXPECT_THAT(append(*state, a, Rollback{1, "power"}), IsEmpty());
  EXPECT_EQ(whole.round(), 1);
  EXPECT_EQ(summary_of(begun, 1), summary_of(whole, 1));
}

TEST(JobState, begins_with_no_text_that_is_no_summary) {
  JobState state = job(1);
  ASSERT_THAT(append(state, a, commit_of_first()), IsEmpty());
  const std::string summary = summary_of(state, 1);
  for (std::size_t i = 0; i < summary.size(); ++i) EXPECT_THROW(state_of(summary.substr(0, i)), Error);
  const std::pair<const char*, const char*> changes[] = {
      {"\"committed\":[[0,2],[3,4]]", "\"committed\":[[0,2],[2,4]]"},
      {"\"committed\":[[0,2],[3,4]]", "\"committed\":[[0,2],[4611686018427387904,4611686018427387905]]"},
      {"\"reducers\":[[", "\"reducers\":[[7,1],["},
      {"\"epoch\":1", "\"epoch\":-1"},
      {"\"parameters\":10", "\"parameters\":0"}};
  for (const auto& [from, to] : changes) {
    std::string changed = summary;
    ASSERT_NE(changed.find(from), std::string::npos) << from << " in " << summary;
    changed.replace(changed.find(from), std::string(from).size(), to);
    EXPECT_THROW(state_of(changed), Error) << changed;
  }
}

TEST(JobState, begins_with_a_genesis) {
  JobState state;
  EXPECT_THAT(append(state, a, ViewEntry{1, {member(a)}, ""}), HasSubstr("before a valid genesis"));
  Genesis genesis;
  genesis.parameters = 1;
  genesis.piece = 1;
  EXPECT_THAT(append(state, a, genesis), HasSubstr("second genesis")) << "its place is index 0";
}

TEST(EntryText, says_each_entry_so_that_it_is_read_again) {
  const Entry::What all[] = {Genesis{"job", "recipe", {}, {}, {}, {}, 7, 4, 10, 4, "dense", 100},
                             ViewEntry{2, {member(a), member(b)}, "why \"so\""},
                             Exclude{2, 3, {a}},
                             commit_of_first(),
                             Rollback{1, "power"},
                             Quarantine{{{1, 2, 3}}, "nan"},
                             LogCheckpoint{4, {}, {a, b}, "{}"}};
  for (const Entry::What& what : all) {
    const Entry entry{a, 0xfedcba9876543210, what};
    EXPECT_EQ(entry_from_text(to_text(entry)), entry) << to_text(entry);
  }
}

TEST(ControlMessages, refuse_lists_that_stand_for_more_than_a_message_may) {
  const std::string many = R"([[0,1,1048576],[0,1,1048576]])";
  const std::string zeros(64, '0');
  const auto json = [](const std::string& text) { return io::parse_json(text, "a test"); };
  EXPECT_THROW(static_cast<void>(want_state_from_json(json(R"({"state":)" + many + "}"))), DecodeError);
  EXPECT_THROW(static_cast<void>(want_state_from_json(json(R"({"state":[[0,1,251]]})"))), DecodeError);
  EXPECT_EQ(want_state_from_json(json(R"({"state":[[3,1,2]]})")).pieces, (std::vector<std::int64_t>{3, 4}));
  Offer offer{1, 1, {{0, 2, 3}, {1, 2, 3}}, 2, 1, {}};
  EXPECT_EQ(offer_from_json(to_json(offer)), offer);
  offer.indices = {{0, 2, 3}, {1, 3, 2}};  // 4 is in both
  EXPECT_THROW(static_cast<void>(offer_from_json(to_json(offer))), DecodeError);
  offer = {1, 1, {{0, 1, 1}}, 2, 1, {}, false};
  EXPECT_THROW(static_cast<void>(offer_from_json(to_json(offer))), DecodeError) << "not finite, and weighs 2";
  offer.weight = 0;
  EXPECT_EQ(offer_from_json(to_json(offer)), offer);
}

TEST(EntryText, that_is_damaged_is_no_entry_and_never_an_exception) {
  const std::string text = to_text(Entry{a, 1, commit_of_first()});
  int unreadable = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char with : {'\0', '9', '"', '}', 'x'}) {
      std::string damaged = text;
      damaged[i] = with;
      JobState state = job();
      const Entry entry = entry_from_text(damaged);
      unreadable += std::holds_alternative<Unreadable>(entry.what) ? 1 : 0;
      static_cast<void>(apply(state, entry));
      EXPECT_EQ(state.entries, 3);
    }
    EXPECT_TRUE(std::holds_alternative<Unreadable>(entry_from_text(text.substr(0, i)).what));
  }
  EXPECT_GT(unreadable, static_cast<int>(text.size()));
  for (const char* other : {"", "null", "[]", "{}", "{\"kind\":\"commit\"}", "{\"author\":\"a/1\",\"nonce\":1,\"kind\":\"no\"}"}) {
    EXPECT_TRUE(std::holds_alternative<Unreadable>(entry_from_text(other).what)) << other;
  }
}

}  // namespace
}  // namespace reef::swarm::core
