#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/swarm/core/session_message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// A server of a route, and the blocks that it is to do.
struct RouteHop {
  std::string server{};
  BlockRange blocks{};

  friend bool operator==(const RouteHop&, const RouteHop&) = default;
};

/// Returns true if the hops do these blocks, one hop behind the other.
bool is_chain(const std::vector<RouteHop>& hops, const BlockRange& blocks);

/// Why a server of a chain is replaced.
///
/// | lost, silent, checksum, evicted, overload | the server's, or its link's: it is banned for a while (ServerBans)   |
/// | refused                                   | room, model, epoch, unknown, draining: the server is not at fault    |
///
/// What is an error of the client (malformed, step) replaces nobody: the session fails.
enum class HopFailure : std::uint8_t { lost, silent, checksum, evicted, overload, refused };

/// Returns the failure that a server's refusal is.
HopFailure failure_of(SessionRefusal refusal);

/// Returns true for a refusal that says that the client contradicts itself or its own log.
[[nodiscard]] inline bool is_of_client(SessionRefusal refusal) {
  return refusal == SessionRefusal::malformed || refusal == SessionRefusal::step;
}

/// Returns a name: "is lost", "is silent", ...
std::string_view name_of(HopFailure failure);

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/session_route.ipp>
#endif
