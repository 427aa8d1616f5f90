#pragma once

#include <cstdint>

#include <reef/swarm/core/deadlines.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/round.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The options of a peer (core::Peer).
struct PeerOptions {
  Member self{};
  Genesis genesis{};  ///< facts of the job: appended to an empty log, else compared with the log's
  Deadlines deadlines{};
  RoundFunctions functions{};
  std::int64_t first_members = 1;  ///< number of peers that the first membership waits for
  std::uint64_t seed = 0;          ///< seed of the random numbers by which the peer knows its own log entries again
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
