#pragma once

#include <algorithm>
#include <iterator>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/detail/room.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

REEF_INLINE void Room::make() {
  // The trainer may not have applied the others yet.
  const auto applied = [&] { return peer.kept.lower_bound(peer.applied); };
  for (auto at = peer.kept.begin(); at != applied();) {
    at = may_be_asked_for(at->first) ? std::next(at) : peer.kept.erase(at);
  }
  while (is_full() && peer.kept.begin() != applied()) peer.kept.erase(peer.kept.begin());
  if (is_full()) drop_early();
  if (is_full()) peer.round.keep_results_of(digest_of_targets());
  if (is_full()) peer.round.keep_parts_of(state().targets(), self(), state().reducers);
  if (is_full()) drop_ahead();
}

REEF_INLINE bool Room::may_be_asked_for(std::int64_t round) const {
  const auto lacks = [&](const PeerId& id) {
    const auto beat = peer.beats.find(id);
    return beat == peer.beats.end() || beat->second.applied <= round;
  };
  const bool a_member = std::any_of(state().members.begin(), state().members.end(), [&](const Member& member) {
    return member.id != self() && lacks(member.id);
  });
  // A peer that has no round's weights begins with those after the newest round, and asks for the rounds after them.
  return a_member || std::any_of(peer.beats.begin(), peer.beats.end(), [&](const auto& heard) {
           return state().member(heard.first) == nullptr && heard.second.applied <= round &&
                  !peer.detector.suspects(heard.first, now);
         });
}

REEF_INLINE void Room::drop_early() {
  // The newest go first.
  for (std::size_t at = peer.early.size(); at-- > 0 && is_full();) {
    if (has_piece(peer.early[at].second)) peer.early.erase(peer.early.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

REEF_INLINE void Room::drop_ahead() {
  // Who takes part in the round needs all of what is left; anybody else follows, round by round.
  if (in_round()) return;
  peer.round.keep_parts_of({}, self(), {});
  peer.round.forget_results();
  for (auto at = peer.behind.rbegin(); at != peer.behind.rend() && at->first > peer.applying && is_full(); ++at) {
    at->second.forget_results();
  }
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
