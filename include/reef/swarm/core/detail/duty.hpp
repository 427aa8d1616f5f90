#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/detail/peer_memory.hpp>
#include <reef/swarm/core/event.hpp>
#include <reef/swarm/core/pieces.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// What a peer does at one moment, and the actions that come of it: the base of what each duty needs.
struct Duty {
  PeerMemory& peer;
  Seconds now;
  std::vector<Action>& actions;

  [[nodiscard]] const JobState& state() const { return peer.state; }
  [[nodiscard]] const PeerId& self() const { return peer.options.self.id; }
  [[nodiscard]] const Deadlines& deadlines() const { return peer.options.deadlines; }
  [[nodiscard]] const RoundFunctions& functions() const { return peer.options.functions; }
  [[nodiscard]] Digest digest_of_targets() const { return digest_of(state().targets(), functions().digest); }
  [[nodiscard]] bool in_round() const { return peer.is_member() && peer.applied == state().round(); }
  [[nodiscard]] std::int64_t pieces() const { return state().genesis ? piece_count(*state().genesis) : 0; }
  /// Returns how long a contribution may be awaited after the own one: adapted to the last rounds.
  [[nodiscard]] Seconds exchange_bound() const {
    if (peer.exchanges.size() < 4) return deadlines().exchange;
    return (std::clamp)(peer.exchanges.bound(4) * 2, deadlines().suspect, deadlines().round);
  }

  template <class M>
  void send(const PeerId& to, M message) {
    if (to != self()) actions.push_back(action::Send{to, Message(std::move(message))});
  }
  template <class M>
  void send_to_members(const M& message) {
    for (const Member& member : state().members) send(member.id, message);
  }
  [[nodiscard]] bool may_append() const {
    return now >= peer.quiet_until && (!peer.pending || now >= peer.pending_until);
  }
  void append(Entry::What what) {
    if (!may_append()) return;
    peer.pending = state().entries;
    peer.pending_until = now + 1e9;
    actions.push_back(action::Append{state().entries, {self(), ++peer.nonce, std::move(what)}});
  }

  /// Returns true for a message of the round in progress, and of its attempt.
  template <class M>
  [[nodiscard]] bool in_this_round(const M& message) const {
    return message.round == peer.round.round() && message.attempt == peer.round.attempt();
  }

  [[nodiscard]] std::vector<PeerId> whole() const;
  /// Returns true if a member has not had the newest weights for longer than an exchange takes.
  [[nodiscard]] bool lags(const PeerId& id) const;
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/detail/duty.ipp>
#endif
