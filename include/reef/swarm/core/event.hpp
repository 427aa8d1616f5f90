#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/membership.hpp>
#include <reef/swarm/core/message.hpp>
#include <reef/swarm/core/peer_id.hpp>
#include <reef/swarm/core/round.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The inputs of a peer's state machine (core::Peer::on).
namespace event {
/// A message from another peer has arrived.
struct Received {
  PeerId from{};
  Message message{};
};
/// The connection to a peer is lost, and two attempts have not restored it.
struct Lost {
  PeerId peer{};
};
/// An entry of the job's log was read: the one at index JobState::entries, or the first one that the log still has.
struct Read {
  Entry entry{};
  std::int64_t index = -1;  ///< its index; -1: JobState::entries
};
/// The answer to an append to the log. True: the entry stands; false: another entry stands there, or nobody knows.
struct Appended {
  std::int64_t index = 0;
  bool won = false;
};
/// The number of entries that the log has. The peer does nothing before it has read these.
struct LogEnd {
  std::int64_t entries = 0;
};
/// The list of peers that say they are alive, read from the keys beside the log that have not expired.
struct Present {
  std::vector<PeerPresence> all{};
};
/// The trainer has contributed to the round that was closed.
struct Contributed {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
  Contribution contribution{};
};
/// The trainer has computed a micro-batch of this round.
struct Computed {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
};
/// The trainer has applied rounds: its weights contain this many.
struct Applied {
  std::int64_t rounds = 0;
};
/// The digest of the trainer's state (weights and optimizer) after `rounds` rounds, a multiple of Genesis::checkpoint.
struct StateKept {
  std::int64_t rounds = 0;
  Digest root{};
  bool kept = true;  ///< false: nothing of the state is left when this peer has ended
};
/// A state that an earlier process of this peer has kept; told before the log is read.
struct StateFound {
  std::int64_t rounds = 0;
  Digest root{};
};
/// A piece of the trainer's weights and optimizer state was read, as action::ReadState has asked.
struct StateRead {
  PeerId to{};
  StatePiece piece{};
};
/// Time has passed: a call without other news, so that deadlines are noticed.
struct Tick {};
/// The user asks the peer to leave the job in order.
struct Leave {
  std::string why{};
};
}  // namespace event

using Event =
    std::variant<event::Received, event::Lost, event::Read, event::Appended, event::LogEnd, event::Present,
                 event::Contributed, event::Computed, event::Applied, event::StateKept, event::StateFound,
                 event::StateRead, event::Tick, event::Leave>;

/// The outputs of a peer's state machine (core::Peer::on): what its caller is to do.
namespace action {
/// Sends a message to another peer, never to the peer itself.
struct Send {
  PeerId to{};
  Message message{};
};
/// Appends an entry to the job's log at this index.
struct Append {
  std::int64_t index = 0;
  Entry entry{};
};
/// Writes the key beside the log that says that this peer is alive.
struct Announce {
  PeerPresence presence{};
};
/// Tells the trainer that the round is closed: to finish its present micro-batch, and contribute the sum so far.
struct Close {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
};
/// Tells the trainer that its micro-batches of this round are void, since no peer that the round was assigned to is
/// left.
struct Restart {};
/// Applies the gradient sum of a committed round to the weights.
struct Apply {
  std::int64_t round = 0;
  std::vector<Bulk> results{};
  double weight = 0;  ///< total loss weight of the contributors
  RoundVerdict verdict{};
  std::vector<PeerId> contributors{};
  std::int64_t micro_batches = 0;  ///< of contributors whose sums are finite
};
/// Reads a piece of weights and optimizer state, between two updates, for a peer that joins.
struct ReadState {
  PeerId to{};
  std::int64_t piece = 0;
};
/// Replaces weights and optimizer state of this peer, which joins, by these pieces.
struct SetState {
  std::int64_t rounds = 0;
  std::vector<Bulk> pieces{};
};
/// Replaces weights and optimizer state of this peer by those after `rounds` rounds that event::StateFound has told of.
struct Restore {
  std::int64_t rounds = 0;
};
/// Says that the peer is out of the job for good: it has left.
struct Gone {
  std::string why{};
};
}  // namespace action

using Action = std::variant<action::Send, action::Append, action::Announce, action::Close, action::Restart,
                            action::Apply, action::ReadState, action::SetState, action::Restore, action::Gone>;

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
