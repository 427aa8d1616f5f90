#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/detail/peer_memory.hpp>
#include <reef/swarm/core/event.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/core/membership.hpp>
#include <reef/swarm/core/peer_options.hpp>
#include <reef/swarm/core/wait_cause.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// One peer of a job: the protocol as a state machine without clock, sockets or threads. The real program and the
/// simulation run the same code.
///
///     actions = on(event, now)
///
/// | decides  | nothing by messages: membership, contributors and commits are entries of the log                |
/// | trainer  | take() hands out micro-batches; event Contributed follows action Close; Apply, the log's commit |
/// | clock    | `now` in seconds, of any clock that never goes back; Tick at least every `beat`                 |
/// | memory   | three encoded models: the own contribution, parts to reduce, results; those of the two rounds   |
/// |          | before as long as somebody may ask for them, and there is room                                  |
/// | threads  | one at a time                                                                                   |
///
/// \code
/// // given: const swarm::core::PeerOptions& options
/// swarm::core::Peer peer(options);
/// const std::vector<swarm::core::Action> actions = peer.on(swarm::core::event::Tick{}, 0.0);
/// \endcode
class Peer {
public:
  /// Throws OptionError for deadlines in a wrong order, or missing functions.
  explicit Peer(PeerOptions options);

  std::vector<Action> on(const Event& event, Seconds now);

  /// Returns the index of the next micro-batch that this peer computes in this round; nothing while the peer is no
  /// member, lacks the newest weights, or the round is closed.
  std::optional<std::int64_t> take();

  [[nodiscard]] const JobState& state() const& { return memory_.state; }
  [[nodiscard]] JobState state() const&& { return memory_.state; }
  [[nodiscard]] const PeerId& id() const& { return memory_.id(); }
  [[nodiscard]] PeerId id() const&& { return memory_.id(); }
  [[nodiscard]] Phase phase() const { return memory_.phase(); }
  [[nodiscard]] std::int64_t applied() const { return memory_.applied; }
  [[nodiscard]] bool is_member() const { return memory_.is_member(); }
  /// Returns the key and value that this peer publishes beside the log while it lives, to be written again when the
  /// lease has expired.
  [[nodiscard]] PeerPresence presence(Seconds now) const;
  /// Returns true if this peer can send others the whole result of a round that was summed over these contributors.
  [[nodiscard]] bool holds(std::int64_t round, std::span<const PeerId> contributors) const;
  /// Returns the seconds for which the round in progress has not been committed; 0 where none has begun.
  [[nodiscard]] Seconds round_takes(Seconds now) const {
    return memory_.round == Round() ? 0 : now - memory_.round_began;
  }
  /// Returns true if this peer has no round's weights, lacks those of the job, and hears nobody who has them.
  [[nodiscard]] bool is_without_donor(Seconds now) const;
  /// Returns a sentence that says what the peer waits for, and for whom; empty if for nothing.
  [[nodiscard]] std::string waits_for(Seconds now) const;
  /// Returns what the peer's trainer waits for if it waits now. WaitCause::log is not known here.
  [[nodiscard]] WaitCause wait_cause(Seconds now) const;
  /// Returns why this peer cannot take part: another job, model, data or processor class than those of the log's first
  /// entry; else empty.
  [[nodiscard]] std::string refusal() const { return refusal_of(memory_.state, memory_.options.genesis); }

  /// Returns everything that this peer remembers: for tests that compare peers, and explore what they may do.
  [[nodiscard]] const detail::PeerMemory& memory() const& { return memory_; }
  void memory() const&& = delete;

private:
  detail::PeerMemory memory_;
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/peer.ipp>
#endif
