#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/chain_watch.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE FoundRoute ChainWatch::look(const SessionRouter& router, const RouteWish& wish, const SessionAge& age,
                                        Seconds now) {
  constexpr Seconds look_every = 5;
  constexpr Seconds look_around_every = 0.25;
  const bool drains = std::any_of(wish.own.begin(), wish.own.end(),
                                  [&](const RouteHop& hop) { return router.is_draining(hop.server); });
  if (drains) {
    if (now - looked_around_ < look_around_every) return {};
    looked_around_ = now;
    return router.around_draining(wish, now);
  }
  if (now - looked_ < look_every) return {};
  looked_ = now;
  FoundRoute found = router.better(wish, age, now);
  const bool is_first = !std::exchange(wants_, !found.hops.empty());
  if (is_first || found.hops.empty()) return {};
  wants_ = false;
  return found;
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
