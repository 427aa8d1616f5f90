#pragma once

#include <map>
#include <string>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// Returns the wait before an attempt, which are counted from 0: 0, then `least`, doubled each time, `most` at most.
///
/// Source: Petals, arXiv 2312.08361, the public code.
Seconds wait_before(int attempt, Seconds least, Seconds most);

/// Servers that are not asked for a while, since they were at fault: for 15 s * 2^k, where k is the number of bans
/// since the server has answered last.
///
/// | failed   | begins a ban; a server that is banned already is banned no longer by it                      |
/// | answered | ends the ban, and begins to count anew                                                       |
/// | memory   | of 4096 servers at most: of more, those whose bans have ended first are forgotten            |
///
/// A ban says whom to avoid, not whom to refuse: where a block has no other server, the banned one is asked
/// (SessionRouter).
///
/// Source: Petals, arXiv 2312.08361, the public code.
///
/// \code
/// swarm::core::ServerBans bans;
/// bans.failed("a", 0.0);
/// const bool is_banned = bans.is_banned("a", 14.9);  // true; at 15.1 false
/// \endcode
class ServerBans {
public:
  explicit ServerBans(Seconds first = 15) : first_(first) {}

  void failed(const std::string& server, Seconds now);
  void answered(const std::string& server) { bans_.erase(server); }

  [[nodiscard]] bool is_banned(const std::string& server, Seconds now) const;
  /// Returns the number of bans since the server has answered last.
  [[nodiscard]] int count(const std::string& server) const;

private:
  struct Ban {
    Seconds until = 0;
    int count = 0;
  };

  Seconds first_;
  std::map<std::string, Ban> bans_{};
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/server_bans.ipp>
#endif
