#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/log/presence.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The keys that are present, in memory; times are of the caller's clock. One thread uses it.
class PresenceTable {
public:
  static constexpr std::size_t most_keys = 1024;

  /// Writes a key until `now` + `ttl`. Returns false where the table is full of others.
  bool present(const std::string& key, std::string value, Seconds ttl, Seconds now);

  void absent(const std::string& key) { keys_.erase(key); }

  /// Returns the keys that stand at `now`, in ascending order.
  [[nodiscard]] std::vector<PresentKey> keys(Seconds now);

private:
  struct Held {
    std::string value;
    Seconds end = 0;
  };

  void expire(Seconds now);

  std::map<std::string, Held> keys_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/presence_table.ipp>
#endif
