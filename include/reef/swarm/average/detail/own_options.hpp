#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>

#include <reef/core/error.hpp>
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

/// Throws OptionError for a peer that cannot take part. `why`: as core::refusal_of says.
[[noreturn]] inline void throw_refused(const PeerId& self, const std::string& why) {
  throw OptionError("reef::swarm: ", to_text(self), " cannot take part: ", why,
                    ".\n  fix: the same job, model, data and options on all peers, or another name of the job.");
}

/// Throws OptionError for a peer that comes late, and cannot take the state of the others.
[[noreturn]] inline void throw_no_state(const PeerId& self, std::int64_t rounds) {
  throw OptionError("reef::swarm: ", to_text(self), " comes after round ", rounds,
                    ", and has no AveragingOptions::state to set.\n  fix: give it, or begin with all peers.");
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
