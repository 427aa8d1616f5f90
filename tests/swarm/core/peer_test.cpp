#include <reef/swarm/core/peer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <reef/swarm/core/detail/simulated_job.hpp>

namespace reef::swarm::core {
namespace {

const PeerId a{"a", 1};
const PeerId b{"b", 1};
const PeerId joiner{"c", 1};

Member member(const PeerId& id) { return {id, "127.0.0.1:1", 0, 0}; }

Genesis genesis() {
  Genesis genesis;
  genesis.job = "job";
  genesis.global_batch = 1;
  genesis.parameters = 2;
  genesis.piece = 1;
  return genesis;
}

/// A round that `holders` commit, of one micro-batch of the first of them.
Commit commit(std::int64_t epoch, std::vector<PeerId> holders) {
  Commit commit;
  commit.epoch = epoch;
  for (const PeerId& id : holders) commit.shares.push_back({id, {}, 0, {}});
  commit.shares.front().indices = {{0, 1, 1}};
  commit.shares.front().weight = 1;
  commit.holders = std::move(holders);
  return commit;
}

/// A peer that reads a log, and is in none of its views.
class Joiner {
public:
  Joiner() : peer_(options()) {
    hear(event::LogEnd{1});
    read(a, genesis());
  }
  void read(const PeerId& author, Entry::What what) { hear(event::Read{{author, 0, std::move(what)}}); }
  /// Hears a piece of the weights after round 0, and returns how many pieces its trainer is to take over now.
  std::size_t take(const PeerId& from, std::int64_t piece, std::uint64_t weight, std::int64_t lineage) {
    const Message message = StatePiece{1, piece, detail::bulk_of(weight), lineage};
    for (const Action& action : hear(event::Received{from, message})) {
      if (const auto* const set = std::get_if<action::SetState>(&action)) return set->pieces.size();
    }
    return 0;
  }
  [[nodiscard]] const JobState& state() const& { return peer_.state(); }

private:
  static PeerOptions options() {
    PeerOptions options;
    options.self = member(joiner);
    options.genesis = genesis();
    options.functions = detail::simulated_functions();
    return options;
  }
  std::vector<Action> hear(const Event& event) { return peer_.on(event, 0.0); }

  Peer peer_;
};

TEST(Peer, that_joins_takes_pieces_of_weights_of_one_lineage) {
  Joiner peer;
  peer.read(a, ViewEntry{1, {member(a), member(b)}, ""});
  peer.read(a, commit(1, {a, b}));
  EXPECT_EQ(peer.take(a, 0, 7, 0), 0U);
  peer.read({"operator", 0}, Rollback{0, "told to"});
  peer.read(b, ViewEntry{3, {member(b)}, ""});
  peer.read(b, commit(3, {b}));
  ASSERT_EQ(peer.state().round(), 1);
  ASSERT_EQ(peer.state().ignored, 0);
  // One piece of the weights as they were before, and one on its way, are of no use after the rollback.
  EXPECT_EQ(peer.take(a, 1, 8, 0), 0U);
  EXPECT_EQ(peer.take(b, 1, 3, 1), 0U);
  EXPECT_EQ(peer.take(b, 0, 2, 1), 2U);
}

TEST(Peer, that_joins_takes_pieces_of_weights_from_several) {
  Joiner peer;
  peer.read(a, ViewEntry{1, {member(a), member(b)}, ""});
  peer.read(a, commit(1, {a, b}));
  EXPECT_EQ(peer.take(a, 0, 7, 0), 0U);
  EXPECT_EQ(peer.take(b, 2, 7, 0), 0U);  // there is no such piece
  EXPECT_EQ(peer.take(b, 1, 8, 0), 2U);
}

/// One of two members, through the first round; the other one has no micro-batch.
class OneOfTwo {
public:
  OneOfTwo() : peer_(options()) {
    from_b(Beat{});
    hear(event::LogEnd{2});
    hear(event::Read{{a, 0, genesis()}});
    hear(event::Read{{a, 0, ViewEntry{1, {member(a), member(b)}, ""}}});
  }
  /// Gives a contribution of one micro-batch, and takes the result that is the other member's to sum. Returns the
  /// commit that this member appends.
  std::optional<Commit> exchange() {
    event::Contributed contributed{0, 1, {}};
    contributed.contribution.indices = {*peer_.take()};
    contributed.contribution.weight = 1;
    for (std::uint64_t piece = 0; piece < 2; ++piece) contributed.contribution.parts.push_back(detail::bulk_of(piece));
    hear(contributed);
    from_b(Offer{0, 1, {}, 0, 0, {}});
    const Digest targets = digest_of(std::vector{a, b}, detail::simulated_digest);
    from_b(Result{0, 1, targets, 1, detail::bulk_of(1)});
    const Digest root = peer_.memory().round.root(targets, detail::simulated_digest);
    const Beat ready{1, 0, 1, 0, Phase::ready, true, 0, 0, {a, b}, targets, root};
    for (const Action& action : from_b(ready)) {
      const auto* const append = std::get_if<action::Append>(&action);
      if (append != nullptr && std::holds_alternative<Commit>(append->entry.what)) {
        return std::get<Commit>(append->entry.what);
      }
    }
    return std::nullopt;
  }
  void apply(const Commit& commit) {
    hear(event::Read{{a, 1, commit}});
    hear(event::Applied{1});
  }
  void hear_beat(std::int64_t applied) { from_b(Beat{1, applied, 1, applied}); }
  /// Returns how many results of round 0 the peer sends to the other one that asks for them.
  std::size_t given() {
    const Digest targets = digest_of(std::vector{a, b}, detail::simulated_digest);
    std::size_t count = 0;
    for (const Action& action : from_b(Want{0, 1, false, {}, targets, {0, 1}})) {
      const auto* const send = std::get_if<action::Send>(&action);
      count += send != nullptr && std::holds_alternative<Result>(send->message) ? 1 : 0;
    }
    return count;
  }
  [[nodiscard]] const Peer& peer() const& { return peer_; }

private:
  static PeerOptions options() {
    PeerOptions options;
    options.self = member(a);
    options.genesis = genesis();
    options.functions = detail::simulated_functions();
    return options;
  }
  std::vector<Action> hear(const Event& event) { return peer_.on(event, 1.0); }
  std::vector<Action> from_b(const Message& message) { return hear(event::Received{b, message}); }

  Peer peer_;
};

TEST(Peer, keeps_results_until_all_members_have_applied_them) {
  OneOfTwo one;
  const std::optional<Commit> commit = one.exchange();
  ASSERT_TRUE(commit);
  EXPECT_EQ(one.peer().memory().encoded_pieces(), 2U + 2U) << "the own contribution and the results";
  one.apply(*commit);
  ASSERT_EQ(one.peer().applied(), 1);
  one.hear_beat(0);
  EXPECT_EQ(one.peer().memory().encoded_pieces(), 2U) << "the results";
  EXPECT_EQ(one.given(), 2U);
  one.hear_beat(1);
  EXPECT_EQ(one.peer().memory().encoded_pieces(), 0U);
  EXPECT_EQ(one.given(), 0U);
}

}  // namespace
}  // namespace reef::swarm::core
