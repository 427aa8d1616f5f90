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

/// The events that a peer hears of.
namespace event {
/// A message of another peer.
struct Received {
  PeerId from{};
  Message message{};
};
/// The connection to a peer is lost, and two attempts have not restored it.
struct Lost {
  PeerId peer{};
};
/// The entry of the log at the next index, JobState::entries.
struct Read {
  Entry entry{};
};
/// The answer to an append: true: the entry stands; false: another one does, or nobody knows.
struct Appended {
  std::int64_t index = 0;
  bool won = false;
};
/// The number of entries that the log has: the peer does nothing before it has read these.
struct LogEnd {
  std::int64_t entries = 0;
};
/// The presences beside the log, all that have not run out.
struct Present {
  std::vector<PeerPresence> all{};
};
/// The trainer's contribution to the round that was closed.
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
/// The trainer's weights contain this many rounds.
struct Applied {
  std::int64_t rounds = 0;
};
/// A piece of the trainer's weights and state, which was asked for by action::ReadState.
struct StateRead {
  PeerId to{};
  StatePiece piece{};
};
/// Time has passed.
struct Tick {};
/// The peer is to leave the job in order.
struct Leave {
  std::string why{};
};
}  // namespace event

using Event =
    std::variant<event::Received, event::Lost, event::Read, event::Appended, event::LogEnd, event::Present,
                 event::Contributed, event::Computed, event::Applied, event::StateRead, event::Tick, event::Leave>;

/// The actions that a peer asks of whoever runs it.
namespace action {
/// Send a message; a message to oneself is never asked for.
struct Send {
  PeerId to{};
  Message message{};
};
/// Append an entry to the log at this index.
struct Append {
  std::int64_t index = 0;
  Entry entry{};
};
/// Write this peer's presence beside the log.
struct Announce {
  PeerPresence presence{};
};
/// Tell the trainer that the round is closed: it ends at its micro-batch, and contributes what it has.
struct Close {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
};
/// Tell the trainer that its micro-batches of this round are void: nobody of those to whom the round was dealt is left.
struct Restart {};
/// Apply the sum of a committed round to the weights.
struct Apply {
  std::int64_t round = 0;
  std::vector<Bulk> results{};
  double weight = 0;  ///< total weight of the contributors
  RoundVerdict verdict{};
};
/// Read a piece of weights and state, between two updates, for a peer that joins.
struct ReadState {
  PeerId to{};
  std::int64_t piece = 0;
};
/// Replace weights and state, of this peer that joins, by these pieces.
struct SetState {
  std::int64_t rounds = 0;
  std::vector<Bulk> pieces{};
};
/// The peer is out of the job for good: it has left.
struct Gone {
  std::string why{};
};
}  // namespace action

using Action = std::variant<action::Send, action::Append, action::Announce, action::Close, action::Restart,
                            action::Apply, action::ReadState, action::SetState, action::Gone>;

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
