#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/server_bans.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE Seconds wait_before(int attempt, Seconds least, Seconds most) {
  constexpr int doublings = 60;
  if (attempt < 1) return 0;
  return (std::min)(std::ldexp(least, (std::min)(attempt - 1, doublings)), most);
}

REEF_INLINE void ServerBans::failed(const std::string& server, Seconds now) {
  constexpr std::size_t most = 4096;
  constexpr int doublings = 20;
  if (is_banned(server, now)) return;
  if (bans_.size() >= most && !bans_.contains(server)) {
    bans_.erase(std::min_element(bans_.begin(), bans_.end(), [](const auto& a, const auto& b) {
      return a.second.until < b.second.until;
    }));
  }
  Ban& ban = bans_[server];
  ban.until = now + std::ldexp(first_, (std::min)(ban.count, doublings));
  ++ban.count;
}

REEF_INLINE bool ServerBans::is_banned(const std::string& server, Seconds now) const {
  const auto found = bans_.find(server);
  return found != bans_.end() && now < found->second.until;
}

REEF_INLINE int ServerBans::count(const std::string& server) const {
  const auto found = bans_.find(server);
  return found == bans_.end() ? 0 : found->second.count;
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
