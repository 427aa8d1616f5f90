#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/deadlines.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/failure_detector.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/core/membership.hpp>
#include <reef/swarm/core/message.hpp>
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

using Event = std::variant<event::Received, event::Lost, event::Read, event::Appended, event::LogEnd, event::Present,
                           event::Contributed, event::Computed, event::Applied, event::StateRead, event::Tick,
                           event::Leave>;

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

using Action = std::variant<action::Send, action::Append, action::Announce, action::Close, action::Restart, action::Apply,
                            action::ReadState, action::SetState, action::Gone>;

/// The options of a peer.
struct PeerOptions {
  Member self{};
  Genesis genesis{};  ///< which the peer appends to an empty log, and with which another one must agree
  Deadlines deadlines{};
  RoundFunctions functions{};
  std::int64_t first_members = 1;  ///< peers that the first view waits for
  std::uint64_t seed = 0;          ///< of the numbers by which the peer knows its entries again
};

/// One peer of a job: the protocol as a function of events, without clock, sockets or threads. A program and the
/// simulation drive the same object.
///
///     actions = on(event, now)
///
/// | decides  | nothing by messages: membership, contributors and commits are entries of the log                     |
/// | trainer  | take() hands out micro-batches; Contributed follows Close; Apply follows the commit in the log       |
/// | clock    | `now` in seconds, of any clock that never goes back; Tick at least every `beat`                      |
/// | memory   | the own contribution, parts to reduce, and the results of this round and of the two before           |
/// | threads  | one at a time                                                                                        |
///
/// \code
/// // given: const swarm::core::PeerOptions& options
/// swarm::core::Peer peer(options);
/// const std::vector<swarm::core::Action> actions = peer.on(swarm::core::event::Tick{}, 0.0);
/// \endcode
class Peer {
public:
  /// Throws OptionError for deadlines in a wrong order, or functions that are not given.
  explicit Peer(PeerOptions options);

  std::vector<Action> on(const Event& event, Seconds now);

  /// Returns the next micro-batch that this peer computes in this round; nothing while it is no member, lacks the newest
  /// weights, or the round is closed.
  std::optional<std::int64_t> take();

  [[nodiscard]] const JobState& state() const& { return state_; }
  [[nodiscard]] const PeerId& id() const& { return options_.self.id; }
  [[nodiscard]] Phase phase() const;
  [[nodiscard]] std::int64_t applied() const { return applied_; }
  [[nodiscard]] bool is_member() const { return state_.member(id()) != nullptr; }
  /// Returns the presence that stands beside the log while this peer lives, to be written again where a lease has run out.
  [[nodiscard]] PeerPresence presence(Seconds now) const;
  /// Returns true if this peer can give others all results of a round, for these contributors.
  [[nodiscard]] bool holds(std::int64_t round, std::span<const PeerId> contributors) const;
  /// Returns a sentence that says what the peer waits for, and for whom; empty if for nothing.
  [[nodiscard]] std::string waits_for(Seconds now) const;
  /// Returns why this peer cannot take part: another job, model, data or processor class than the log's genesis; else empty.
  [[nodiscard]] std::string refusal() const;

private:
  friend struct Protocol;

  /// A committed round whose results may still be asked for.
  struct Kept {
    Digest targets{};
    std::vector<Bulk> results{};
  };

  PeerOptions options_;
  JobState state_{};
  FailureDetector detector_;
  DurationWindow exchanges_{16};  // seconds from closing to having all results, of the last rounds
  std::map<PeerId, Beat> beats_{};
  std::map<PeerId, PeerPresence> presences_{};
  std::optional<PeerPresence> announced_{};
  Round round_{};
  std::set<std::pair<std::int64_t, PeerId>> sent_{};             // parts by reducer
  std::set<PeerId> told_{};                                       // who has the offer
  std::vector<std::pair<PeerId, Message>> early_{};               // of the round after this one
  std::map<std::int64_t, Kept> kept_{};                           // by round
  std::map<std::int64_t, Round> behind_{};                        // committed rounds that the trainer was not given yet
  std::map<std::int64_t, std::map<std::int64_t, Bulk>> joining_{};  // state pieces by rounds
  std::optional<std::int64_t> log_end_{};  // as it was when the peer asked
  std::int64_t applied_ = 0;
  std::int64_t applying_ = 0;  // rounds whose results the trainer was given
  std::int64_t taken_ = 0;     // micro-batches of this round that were handed out
  std::int64_t computed_ = 0;  // of these, those that are computed
  std::int64_t steps_ = 0;
  std::uint64_t nonce_ = 0;
  std::optional<std::int64_t> pending_{};  // index of an append whose place in the log is not read yet
  Seconds quiet_until_ = 0;                // nothing is appended before: the last own entry broke a rule
  Seconds pending_until_ = 0;              // when it is tried again, if it was not won
  std::optional<std::string> leaving_{};
  bool gone_ = false;
  bool close_asked_ = false;
  Beat beat_{};  // the last one that was sent
  Seconds last_beat_ = -1e9;
  Seconds last_want_ = 0;
  Seconds closed_at_ = -1;  // of this round; below 0: not yet
  Seconds ready_at_ = -1;
  Seconds round_began_ = 0;
  Seconds view_read_at_ = -1e9;  // when the last view was read
  Seconds view_wanted_at_ = -1;  // since when the view should be another one; below 0: it should not
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/peer.ipp>
#endif
