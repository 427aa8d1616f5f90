#pragma once

#include <cstdint>

#include <reef/swarm/core/deadlines.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/round.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The options of a peer.
struct PeerOptions {
  Member self{};
  Genesis genesis{};  ///< which the peer appends to an empty log, and with which another one must agree
  Deadlines deadlines{};
  RoundFunctions functions{};
  std::int64_t first_members = 1;  ///< peers that the first view waits for
  std::uint64_t seed = 0;          ///< of the numbers by which the peer knows its entries again
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
