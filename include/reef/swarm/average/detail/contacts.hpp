#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/net/endpoint.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Those to whom a peer's endpoint is connected, and the addresses at which it has looked for others. On the thread of
/// the endpoint's loop.
class Contacts {
public:
  void connected(const RemotePeer& peer) { connected_[peer.name] = peer.incarnation; }
  /// Notes that a connection is lost. Returns false if its peer was connected as another process since.
  bool lost(const RemotePeer& peer) {
    if (!has({peer.name, peer.incarnation})) return false;
    connected_.erase(peer.name);
    return true;
  }
  /// Returns true if a peer is connected, as this process.
  [[nodiscard]] bool has(const PeerId& peer) const {
    const auto found = connected_.find(peer.name);
    return found != connected_.end() && found->second == peer.incarnation;
  }
  /// Returns true, once for each address, if a peer is to be connected at its address.
  bool is_new(const std::string& address) { return !address.empty() && asked_.insert(address).second; }

private:
  std::map<std::string, std::uint64_t> connected_;
  std::set<std::string> asked_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
