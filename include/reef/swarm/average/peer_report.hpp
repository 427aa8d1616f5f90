#pragma once

#include <array>
#include <string>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/core/job_report.hpp>
#include <reef/swarm/core/peer_id.hpp>
#include <reef/swarm/core/wait_cause.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// What an AveragingPeer knows of its job, and has done in it so far.
///
/// | waited | seconds in which the trainer's thread has waited in AveragingPeer, by core::WaitCause. The cause is |
/// |        | looked at with each event that the peer hears of, at least twice a beat                            |
/// | bytes  | between peers, on TCP, what TLS adds included; those of the log are not among them                 |
///
/// \code
/// // given: const swarm::AveragingPeer& peer
/// const swarm::PeerReport report = peer.report();
/// const std::string page = swarm::to_prometheus(report);
/// \endcode
struct PeerReport {
  PeerId id{};             ///< of the peer that reports
  core::JobReport job{};   ///< as far as the peer has read the log
  Seconds seconds = 0;     ///< since the AveragingPeer was made
  std::array<Seconds, core::wait_causes> waited{};
  Bytes sent = 0;
  Bytes received = 0;
};

/// Returns a report as one JSON object.
io::Json to_json(const PeerReport& report);

/// Returns a report in Prometheus' text format 0.0.4: metrics `reef_swarm_...`.
///
/// Source: Prometheus, Exposition formats, "Text-based format".
std::string to_prometheus(const PeerReport& report);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/peer_report.ipp>
#endif
