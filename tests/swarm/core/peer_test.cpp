#include <reef/swarm/core/peer.hpp>

#include <cstdint>
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

}  // namespace
}  // namespace reef::swarm::core
