#pragma once

#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/checkpoint_duty.hpp>
#include <reef/swarm/core/job_summary.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

REEF_INLINE void CheckpointDuty::restore() {
  if (!state().checkpoint || peer.applying > 0 || peer.is_member()) return;
  const auto kept = peer.found.find(state().checkpoint->rounds);
  if (kept == peer.found.end() || kept->second != state().checkpoint->root) return;
  peer.applying = kept->first;
  peer.joining.clear();
  peer.roots[kept->first] = kept->second;
  peer.own_kept = kept->first;
  actions.push_back(action::Restore{kept->first});
}

REEF_INLINE void CheckpointDuty::compare() {
  if (!state().checkpoint || peer.differs) return;
  const auto own = peer.roots.find(state().checkpoint->rounds);
  if (own == peer.roots.end() || own->second == state().checkpoint->root) return;
  peer.differs = true;
  peer.leaving = concat("its state after ", own->first, " rounds is another one than that of the other members");
  peer.leaving_since = now - 2 * deadlines().suspect;  // whoever lacks results asks others for them
}

REEF_INLINE void CheckpointDuty::decide() {
  const std::int64_t last = state().checkpoint ? state().checkpoint->rounds : 0;
  LogCheckpoint next{peer.own_kept, {}, {}, {}};
  std::int64_t before_self = 0;
  if (peer.is_member() && !peer.differs && next.rounds > last && next.rounds <= state().round()) {
    next.root = peer.roots.at(next.rounds);
    for (const Member& member : state().members) {
      const auto beat = peer.beats.find(member.id);
      const bool holds = member.id == self() || (beat != peer.beats.end() && beat->second.kept == next.rounds &&
                                                 beat->second.kept_root == next.root);
      if (holds && member.id < self()) ++before_self;
      if (holds) next.holders.push_back(member.id);
    }
  }
  const auto least = least_holders(static_cast<std::int64_t>(state().members.size()));
  if (next.holders.empty() || static_cast<std::int64_t>(next.holders.size()) < least) {
    peer.checkpoint_wanted_at = -1;
    return;
  }
  if (peer.checkpoint_wanted_at < 0) peer.checkpoint_wanted_at = now;
  // The first of the holders appends at once, the others only if nothing comes of it.
  const bool is_time = now - peer.checkpoint_wanted_at >= static_cast<double>(before_self) * deadlines().suspect;
  if (!is_time || !may_append()) return;
  next.summary = summary_of(state(), next.rounds);
  append(std::move(next));
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
