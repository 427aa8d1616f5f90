#include <reef/swarm/core/peer.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/swarm/core/detail/simulated_job.hpp>
#include <reef/swarm/core/job_summary.hpp>
#include <reef/swarm/core/simulation.hpp>

namespace reef::swarm::core {
namespace {

using testing::HasSubstr;

const PeerId a{"a", 1};
const PeerId b{"b", 1};
const PeerId c{"c", 1};

Member member(const PeerId& id) { return {id, "127.0.0.1:1", 0, 0}; }

Genesis genesis() {
  Genesis genesis;
  genesis.job = "job";
  genesis.global_batch = 1;
  genesis.parameters = 2;
  genesis.piece = 1;
  genesis.checkpoint = 1;
  return genesis;
}

Digest digest_of(std::uint8_t number) {
  Digest digest;
  digest.bytes[0] = number;
  return digest;
}

/// A peer that has read of a job of a, b and c that one round is committed.
class CheckpointedPeer {
public:
  explicit CheckpointedPeer(const PeerId& self, const std::vector<event::StateFound>& found = {})
      : peer_(options(self)) {
    for (const event::StateFound& state : found) hear(state);
    Commit commit;
    commit.epoch = 1;
    commit.shares = {{a, {{0, 1, 1}}, 1, {}}, {b, {}, 0, {}}, {c, {}, 0, {}}};
    commit.holders = {a, b, c};
    for (const PeerId& id : {a, b, c}) {
      if (id != self) hear(event::Received{id, Beat{}});
    }
    hear(event::LogEnd{3});
    read(a, genesis());
    read(a, ViewEntry{1, {member(a), member(b), member(c)}, ""});
    read(b, std::move(commit));
  }

  std::vector<Action> hear(const Event& event, Seconds now = 0) { return peer_.on(event, now); }
  std::vector<Action> read(const PeerId& author, Entry::What what) {
    return hear(event::Read{{author, 0, std::move(what)}});
  }
  /// Hears a beat of a member that has kept the state after round 0.
  std::vector<Action> hear_kept(const PeerId& from, const Digest& root, Seconds now = 0) {
    Beat beat;
    beat.kept = 1;
    beat.kept_root = root;
    return hear(event::Received{from, beat}, now);
  }
  [[nodiscard]] const JobState& state() const& { return peer_.state(); }

  static PeerOptions options(const PeerId& self) {
    PeerOptions options;
    options.self = member(self);
    options.genesis = genesis();
    options.functions = detail::simulated_functions();
    return options;
  }

private:
  Peer peer_;
};

/// Returns the entry of this kind that actions append, if there is one.
template <class What>
std::optional<What> appended(const std::vector<Action>& actions) {
  for (const Action& action : actions) {
    const auto* const append = std::get_if<action::Append>(&action);
    if (append == nullptr) continue;
    if (const auto* const what = std::get_if<What>(&append->entry.what)) return *what;
  }
  return std::nullopt;
}

template <class What>
const What* of(const std::vector<Action>& actions) {
  for (const Action& action : actions) {
    if (const auto* const found = std::get_if<What>(&action)) return found;
  }
  return nullptr;
}

TEST(Checkpoints, are_decided_once_enough_members_have_kept_the_same_state) {
  CheckpointedPeer peer(a);
  peer.hear(event::Applied{1});
  EXPECT_FALSE(appended<LogCheckpoint>(peer.hear(event::StateKept{1, digest_of(7), true})));
  EXPECT_FALSE(appended<LogCheckpoint>(peer.hear_kept(c, digest_of(8)))) << "another state";
  const auto checkpoint = appended<LogCheckpoint>(peer.hear_kept(b, digest_of(7)));
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(*checkpoint, (LogCheckpoint{1, digest_of(7), {a, b}, summary_of(peer.state(), 1)}));
}

TEST(Checkpoints, are_appended_by_the_second_holder_where_the_first_does_not) {
  CheckpointedPeer peer(b);
  peer.hear(event::Applied{1});
  peer.hear(event::StateKept{1, digest_of(7), true});
  EXPECT_FALSE(appended<LogCheckpoint>(peer.hear_kept(a, digest_of(7))));
  bool appends = false;
  for (Seconds now = 0; now < 2 * Deadlines{}.suspect; now += 0.1) {
    appends = appends || appended<LogCheckpoint>(peer.hear_kept(c, digest_of(0), now));
    appends = appends || appended<LogCheckpoint>(peer.hear_kept(a, digest_of(7), now));
  }
  EXPECT_TRUE(appends);
}

TEST(Checkpoints, of_a_state_that_is_not_kept_are_not_decided) {
  CheckpointedPeer peer(a);
  peer.hear(event::Applied{1});
  peer.hear(event::StateKept{1, digest_of(7), false});
  EXPECT_FALSE(appended<LogCheckpoint>(peer.hear_kept(b, digest_of(7))));
}

TEST(Checkpoints, are_waited_for_by_a_member_that_leaves) {
  CheckpointedPeer peer(a);
  peer.hear(event::Applied{1});
  Beat beat;
  beat.applied = 1;  // nobody needs results of the one that leaves
  for (const PeerId& id : {b, c}) peer.hear(event::Received{id, beat});
  peer.hear(event::StateKept{1, digest_of(7), true});
  EXPECT_FALSE(appended<ViewEntry>(peer.hear(event::Leave{"done"})));
  beat.kept = 1;
  beat.kept_root = digest_of(7);
  const auto checkpoint = appended<LogCheckpoint>(peer.hear(event::Received{b, beat}));
  ASSERT_TRUE(checkpoint);
  EXPECT_TRUE(appended<ViewEntry>(peer.read(a, *checkpoint)));
}

TEST(Checkpoints, that_do_not_come_keep_nobody_for_long) {
  CheckpointedPeer peer(a);
  peer.hear(event::Applied{1});
  peer.hear(event::StateKept{1, digest_of(7), true});
  peer.hear(event::Leave{"done"});
  EXPECT_FALSE(appended<ViewEntry>(peer.hear(event::Tick{}, Deadlines{}.suspect)));
  EXPECT_TRUE(appended<ViewEntry>(peer.hear(event::Tick{}, 2 * Deadlines{}.suspect)));
}

TEST(Checkpoints, make_a_member_with_another_state_leave_and_give_none) {
  CheckpointedPeer peer(a);
  peer.hear(event::Applied{1});
  peer.hear(event::StateKept{1, digest_of(9), false});
  const auto view = appended<ViewEntry>(peer.read(b, LogCheckpoint{1, digest_of(7), {b, c}}));
  ASSERT_EQ(peer.state().ignored, 0);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->members, (std::vector<Member>{member(b), member(c)}));
  EXPECT_THAT(view->why, HasSubstr("its state after 1 rounds is another one"));
  const std::vector<Action> read = peer.hear(event::StateRead{c, {1, 0, detail::bulk_of(3)}});
  EXPECT_EQ(of<action::Send>(read), nullptr) << "a state that differs goes to nobody";
  const auto actions = peer.read(a, *view);
  const auto* const gone = of<action::Gone>(actions);
  ASSERT_NE(gone, nullptr);
  EXPECT_THAT(gone->why, HasSubstr("another one than that of the other members"));
}

TEST(Checkpoints, let_a_process_begin_with_what_an_earlier_one_has_kept) {
  const PeerId again{"b", 2};
  CheckpointedPeer peer(again, {{1, digest_of(7)}, {2, digest_of(8)}});
  EXPECT_EQ(of<action::Restore>(peer.hear(event::Tick{})), nullptr) << "nothing is decided";
  const auto actions = peer.read(b, LogCheckpoint{1, digest_of(7), {b, c}});
  const auto* const restore = of<action::Restore>(actions);
  ASSERT_NE(restore, nullptr);
  EXPECT_EQ(restore->rounds, 1);
  EXPECT_EQ(of<action::Restore>(peer.hear(event::Tick{})), nullptr) << "once";
}

TEST(Checkpoints, of_another_state_than_a_process_has_kept_are_not_begun_with) {
  CheckpointedPeer peer({"b", 2}, {{1, digest_of(6)}});
  EXPECT_EQ(of<action::Restore>(peer.read(b, LogCheckpoint{1, digest_of(7), {b, c}})), nullptr);
}

/// Returns the entry of a checkpoint after round 0 of the job of a CheckpointedPeer, with its summary.
Entry checkpoint_of(const CheckpointedPeer& peer) {
  return {b, 0, LogCheckpoint{1, digest_of(7), {b, c}, summary_of(peer.state(), 1)}};
}

TEST(Checkpoints, let_who_finds_no_entries_before_them_begin) {
  const Entry entry = checkpoint_of(CheckpointedPeer(a));
  Peer peer(CheckpointedPeer::options({"d", 1}));
  peer.on(event::LogEnd{4}, 0);
  EXPECT_EQ(of<action::Gone>(peer.on(event::Read{entry, 3}, 0)), nullptr);
  EXPECT_EQ(peer.state().entries, 4);
  EXPECT_EQ(peer.state().round(), 1);
  EXPECT_EQ(peer.state().member_ids(), (std::vector<PeerId>{a, b, c}));
  EXPECT_EQ(peer.refusal(), "");
  // The state comes from somebody who has it.
  Beat beat;
  beat.applied = beat.round = 1;
  peer.on(event::Received{b, beat}, 0);
  const auto actions = peer.on(event::Tick{}, 100);
  const auto wanted = [](const Action& action) {
    const auto* const send = std::get_if<action::Send>(&action);
    return send != nullptr && std::holds_alternative<WantState>(send->message);
  };
  EXPECT_FALSE(std::any_of(actions.begin(), actions.end(), wanted)) << "b is silent";
  peer.on(event::Received{b, beat}, 100);
  const auto again = peer.on(event::Tick{}, 102);
  EXPECT_TRUE(std::any_of(again.begin(), again.end(), wanted));
}

TEST(Checkpoints, without_a_true_summary_are_not_begun_with) {
  const Entry good = checkpoint_of(CheckpointedPeer(a));
  const auto why = [](const Entry& entry, std::int64_t index) {
    Peer peer(CheckpointedPeer::options({"d", 1}));
    const auto actions = peer.on(event::Read{entry, index}, 0);
    const auto* const gone = of<action::Gone>(actions);
    return gone == nullptr ? std::string() : gone->why;
  };
  EXPECT_EQ(why(good, 3), "");
  EXPECT_THAT(why(good, 5), HasSubstr("of another state"));
  EXPECT_THAT(why({a, 0, Rollback{0, ""}}, 3), HasSubstr("no checkpoint with a summary"));
  Entry bad = good;
  std::get<LogCheckpoint>(bad.what).holders = {b};
  EXPECT_THAT(why(bad, 3), HasSubstr("of another state")) << "the entry breaks a rule";
  std::get<LogCheckpoint>(bad.what).summary = "{}";
  EXPECT_THAT(why(bad, 3), HasSubstr("whose summary is none"));
}

TEST(Checkpoints, behind_which_the_log_is_cut_lose_nothing_in_simulated_jobs) {
  SimulationResult all;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const FaultPlan plan = drawn_plan(seed);
    const SimulationResult result = simulate(plan);
    EXPECT_EQ(result.violation, "") << to_text(plan);
    all += result;
  }
  EXPECT_GT(all.dropped, 0);
  EXPECT_GT(all.begun, 0);
}

TEST(Checkpoints, of_a_simulated_job_come_and_its_peers_begin_with_them_when_all_have_ended) {
  FaultPlan plan;
  plan.peers = 2;
  plan.rounds = 6;
  for (const int peer : {0, 1}) plan.faults.push_back({FaultKind::restart, peer, 4, FaultPhase::accumulate, 3});
  const SimulationResult result = simulate(plan);
  EXPECT_EQ(result.violation, "");
  EXPECT_GE(result.checkpoints, 2);
  EXPECT_GE(result.restored, 1);
}

}  // namespace
}  // namespace reef::swarm::core
