#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>

#include <reef/core/language.hpp>
#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/average/part_codec.hpp>
#include <reef/swarm/core/peer_options.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Returns a number that no other process of the job has, and that is larger than those drawn before, as an endpoint
/// wants. Two that are drawn within a microsecond differ by chance.
inline std::uint64_t drawn_incarnation() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const auto micros =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
  return micros * 16 + std::random_device{}() % 16;
}

/// Returns the options of the protocol's peer. `listens`: the address at which the endpoint listens.
inline core::PeerOptions peer_options_of(const AveragingOptions& options, const PartCodec& codec,
                                         const std::string& listens) {
  core::PeerOptions peer;
  peer.self.id = {options.net.name, options.net.incarnation};
  peer.self.address = options.advertise.empty() ? listens : options.advertise;
  peer.self.up = options.up;
  peer.self.down = options.down;
  peer.genesis = options.genesis;
  peer.deadlines = options.deadlines;
  peer.functions = part_functions(codec, options.genesis.parameters, options.genesis.piece);
  peer.first_members = options.first_members;
  peer.seed = options.net.incarnation;
  return peer;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
