#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/log/detail/presence_table.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE bool PresenceTable::present(const std::string& key, std::string value, Seconds ttl, Seconds now) {
  expire(now);
  if (keys_.size() >= most_keys && !keys_.contains(key)) return false;
  keys_[key] = {std::move(value), now + (std::max)(ttl, shortest_presence)};
  return true;
}

REEF_INLINE std::vector<PresentKey> PresenceTable::keys(Seconds now) {
  expire(now);
  std::vector<PresentKey> all;
  for (const auto& [key, held] : keys_) all.push_back({key, held.value});
  return all;
}

REEF_INLINE void PresenceTable::expire(Seconds now) {
  std::erase_if(keys_, [now](const auto& one) { return one.second.end <= now; });
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
