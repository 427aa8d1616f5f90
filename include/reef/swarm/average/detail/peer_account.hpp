#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/swarm/average/peer_report.hpp>
#include <reef/swarm/core/job_report.hpp>
#include <reef/swarm/core/peer.hpp>
#include <reef/swarm/core/wait_cause.hpp>
#include <reef/swarm/net/endpoint.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The account of an AveragingPeer for its report: who came and went, and for what its trainer's thread has waited.
class PeerAccount {
public:
  explicit PeerAccount(Seconds now) : began_(now) {}

  /// Notes what has changed with an event that the peer has heard of. `log_is_away`: the log does not answer.
  void heard(const core::Peer& peer, bool log_is_away, Seconds now);
  /// Notes that the trainer's thread begins to wait.
  void begin_wait(const core::Peer& peer, bool log_is_away, Seconds now);
  /// Adds the wait of the trainer's thread, which ends, to its cause.
  void end_wait(Seconds now);

  [[nodiscard]] PeerReport report(const core::Peer& peer, EndpointTraffic traffic, Seconds now) const;

private:
  /// A wait of the trainer's thread that goes on: its cause, and the time since which the wait has this cause.
  struct Wait {
    core::WaitCause cause{};
    Seconds since = 0;
  };

  Seconds began_;
  std::int64_t epoch_ = 0;  // of the members that are noted
  std::vector<core::Stay> stays_{};
  std::array<Seconds, core::wait_causes> waited_{};
  std::optional<Wait> wait_{};
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/detail/peer_account.ipp>
#endif
