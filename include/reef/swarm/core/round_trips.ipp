#pragma once

#include <cmath>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/round_trips.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE void RoundTrips::measured(const std::string& server, Seconds seconds, Seconds now) {
  constexpr double share = 0.2;
  const std::optional<Seconds> before = find(server, now);
  if (!before) std::erase_if(trips_, [now](const auto& one) { return now - one.second.at > lasts; });
  const bool has_mean = before && std::isfinite(*before);
  trips_[server] = {has_mean ? share * seconds + (1 - share) * *before : seconds, now};
}

REEF_INLINE std::optional<Seconds> RoundTrips::find(const std::string& server, Seconds now) const {
  const auto found = trips_.find(server);
  if (found == trips_.end() || now - found->second.at > lasts) return {};
  return found->second.seconds;
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
