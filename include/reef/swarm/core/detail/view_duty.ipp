#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/view_duty.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

REEF_INLINE void ViewDuty::leave() {
  const bool may_wait = now - peer.leaving_since < 2 * deadlines().suspect;
  // A checkpoint of what this peer has kept may need it among its holders.
  const std::int64_t decided = state().checkpoint ? state().checkpoint->rounds : 0;
  if (may_wait && peer.is_member() && peer.own_kept > decided) return;
  if (!peer.is_member() || state().members.size() == 1) {
    peer.gone = true;
    actions.push_back(action::Gone{*peer.leaving});
    return;
  }
  // Members and joiners that lack the last round's results get them from this peer first, for a while.
  const auto lacks = [&](const auto& other) {
    return other.second.applied < peer.applied && !peer.detector.suspects(other.first, now);
  };
  if (may_wait && std::any_of(peer.beats.begin(), peer.beats.end(), lacks)) return;
  ViewEntry view{state().epoch + 1, {}, concat(to_text(self()), " leaves: ", *peer.leaving)};
  for (const Member& member : state().members) {
    if (member.id != self()) view.members.push_back(member);
  }
  append(std::move(view));
}

REEF_INLINE std::vector<PeerId> ViewDuty::reach() const {
  std::vector<PeerId> ids = peer.detector.reached(now);
  // Members of a new view may not be connected yet.
  if (now - peer.view_read_at <= deadlines().suspect) {
    for (const Member& member : state().members) {
      if (!peer.detector.silence(member.id, now)) ids.push_back(member.id);
    }
    std::sort(ids.begin(), ids.end());
  }
  std::erase_if(ids, [&](const PeerId& id) { return id == self() || lags(id); });
  return ids;
}

REEF_INLINE bool ViewDuty::could_join() const {
  return !peer.is_member() && !peer.leaving && peer.applied == peer.applying && peer.applied == state().round();
}

REEF_INLINE PeerPresence ViewDuty::own_presence() const {
  return {peer.options.self, reach(), !peer.is_member() && !peer.leaving, peer.applied,
          state().epoch};
}

REEF_INLINE void ViewDuty::change_view() {
  // Members that were never heard may just not be connected yet.
  const bool long_since = state().members.empty() || now - peer.view_read_at > 2 * deadlines().suspect;
  const bool nobody =
      long_since && std::none_of(state().members.begin(), state().members.end(), [&](const Member& member) {
        return peer.presences.contains(member.id) || !peer.detector.suspects(member.id, now);
      });
  const bool may = peer.is_member() || (nobody && could_join());
  std::optional<std::vector<Member>> next;
  if (may && !peer.leaving) {
    std::vector<PeerPresence> present{own_presence()};
    for (const auto& [id, presence] : peer.presences) {
      present.push_back(presence);
      // What a peer says itself is newer than what stands beside the log.
      const auto beat = peer.beats.find(id);
      if (beat != peer.beats.end()) present.back().applied = beat->second.applied;
      // A member whose presence is older than the view says nothing against other members.
      if (state().member(id) != nullptr && presence.epoch < state().epoch) present.back().reach = state().member_ids();
    }
    // A member that this peer hears is there, whether or not its presence has run out.
    for (const Member& member : state().members) {
      if (member.id == self() || peer.presences.contains(member.id) || lags(member.id)) continue;
      if (peer.detector.suspects(member.id, now)) continue;
      PeerPresence presence{member, state().member_ids(), false, state().round(), state().epoch};
      present.push_back(std::move(presence));
    }
    // In the middle of an exchange only departures count: a newcomer waits for the next round.
    const bool exchanging = in_round() && peer.round.closed();
    if (exchanging) {
      std::erase_if(present, [&](const PeerPresence& p) { return state().member(p.who.id) == nullptr; });
    }
    next = next_view(state().members, present, state().round());
    if (next && state().members.empty() && static_cast<std::int64_t>(next->size()) < peer.options.first_members) {
      next.reset();
    }
  }
  const auto own = !next ? std::vector<Member>::iterator{}
                         : std::find_if(next->begin(), next->end(), [&](const Member& m) { return m.id == self(); });
  if (!next || own == next->end()) {
    peer.view_wanted_at = -1;
    return;
  }
  if (peer.view_wanted_at < 0) peer.view_wanted_at = now;
  // The lowest of the next members appends at once, the others only if nothing comes of it.
  const auto place = static_cast<double>(own - next->begin());
  if (now - peer.view_wanted_at < place * 2 * deadlines().beat) return;
  ViewEntry view{state().epoch + 1, *next, {}};
  for (const Member& member : state().members) {
    const bool stays = std::any_of(next->begin(), next->end(), [&](const Member& m) { return m.id == member.id; });
    if (!stays) view.why += concat(view.why.empty() ? "" : ", ", to_text(member.id), " is not heard");
  }
  for (const Member& member : *next) {
    if (state().member(member.id) == nullptr) {
      view.why += concat(view.why.empty() ? "" : ", ", to_text(member.id), " joins");
    }
  }
  append(std::move(view));
}

REEF_INLINE void ViewDuty::announce() {
  PeerPresence presence = own_presence();
  if (peer.announced && *peer.announced == presence) return;
  peer.announced = presence;
  actions.push_back(action::Announce{std::move(presence)});
}

REEF_INLINE void ViewDuty::beat() {
  Beat beat;
  beat.epoch = state().epoch;
  beat.round = state().round();
  beat.attempt = state().attempt;
  beat.applied = peer.applied;
  beat.phase = peer.phase();
  beat.closed = peer.round.closed();
  beat.computed = peer.computed;
  beat.steps = peer.steps;
  if (in_round() && peer.round.contributed()) {
    beat.whole = whole();
    beat.targets = digest_of_targets();
    beat.root = peer.round.root(beat.targets, functions().digest);
  }
  if (peer.own_kept > 0) {
    beat.kept = peer.own_kept;
    beat.kept_root = peer.roots.at(peer.own_kept);
  }
  Beat same = beat;
  same.computed = peer.beat.computed;
  same.steps = peer.beat.steps;
  if (same == peer.beat && now - peer.last_beat < deadlines().beat) return;
  peer.beat = beat;
  peer.last_beat = now;
  std::set<PeerId> contacts;
  for (const Member& member : state().members) contacts.insert(member.id);
  for (const auto& [id, presence] : peer.presences) contacts.insert(id);
  for (const auto& [id, other] : peer.beats) contacts.insert(id);
  for (const PeerId& id : contacts) send(id, beat);
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
