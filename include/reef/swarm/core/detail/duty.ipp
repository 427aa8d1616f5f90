#pragma once

#include <reef/core/inline.hpp>
#include <reef/swarm/core/detail/duty.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

REEF_INLINE std::vector<PeerId> Duty::whole() const {
  std::vector<PeerId> ids;
  for (const Member& member : state().members) {
    if (peer.round.has_whole(member.id, self(), state().reducers)) ids.push_back(member.id);
  }
  return ids;
}

REEF_INLINE bool Duty::lags(const PeerId& id) const {
  if (now - peer.round_began <= exchange_bound()) return false;
  const auto beat = peer.beats.find(id);
  return state().member(id) != nullptr && (beat == peer.beats.end() || beat->second.applied < state().round());
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
