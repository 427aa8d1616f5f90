#pragma once

#include <cstddef>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/average/peer_report.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

inline io::Json json_of(const core::LogTime& time) { return {{"epoch", time.epoch}, {"round", time.round}}; }

}  // namespace detail

REEF_INLINE io::Json to_json(const PeerReport& report) {
  const core::JobReport& job = report.job;
  io::Json peers = io::Json::array();
  for (const core::JobReport::Peer& peer : job.peers) {
    io::Json stays = io::Json::array();
    for (const core::Stay& stay : peer.stays) {
      io::Json one = io::Json::object();
      one["came"] = detail::json_of(stay.came);
      if (stay.went) one["went"] = detail::json_of(*stay.went);
      stays.push_back(std::move(one));
    }
    peers.push_back({{"peer", to_text(peer.id)},
                     {"name", peer.id.name},
                     {"stays", std::move(stays)},
                     {"rounds", peer.rounds},
                     {"micro_batches", peer.micro_batches}});
  }
  io::Json waited = io::Json::object();
  for (std::size_t cause = 0; cause < core::wait_causes; ++cause) {
    waited[std::string(core::name_of(static_cast<core::WaitCause>(cause)))] = report.waited[cause];
  }
  return {{"job", job.job},
          {"peer", to_text(report.id)},
          {"name", report.id.name},
          {"seconds", report.seconds},
          {"rounds", job.rounds},
          {"skipped", job.skipped},
          {"epoch", job.epoch},
          {"members", job.members},
          {"rollbacks", job.rollbacks},
          {"micro_batches",
           {{"committed", job.committed}, {"holes", job.holes}, {"quarantined", job.quarantined}}},
          {"peers", std::move(peers)},
          {"waited", std::move(waited)},
          {"sent_bytes", report.sent},
          {"received_bytes", report.received}};
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
