#pragma once

#include <reef/core/inline.hpp>
#include <reef/swarm/core/session_route.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE bool is_chain(const std::vector<RouteHop>& hops, const BlockRange& blocks) {
  std::int64_t next = blocks.first;
  for (const RouteHop& hop : hops) {
    if (hop.blocks.first != next || hop.blocks.count() < 1) return false;
    next = hop.blocks.last;
  }
  return !hops.empty() && next == blocks.last;
}

REEF_INLINE HopFailure failure_of(SessionRefusal refusal) {
  if (refusal == SessionRefusal::evicted) return HopFailure::evicted;
  return refusal == SessionRefusal::overload ? HopFailure::overload : HopFailure::refused;
}

REEF_INLINE std::string_view name_of(HopFailure failure) {
  switch (failure) {
    case HopFailure::lost: return "is lost";
    case HopFailure::silent: return "is silent";
    case HopFailure::checksum: return "sends damaged rows";
    case HopFailure::evicted: return "has evicted the session";
    case HopFailure::overload: return "is overloaded";
    case HopFailure::refused: return "refuses";
  }
  return "is replaced";
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
