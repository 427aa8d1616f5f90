#pragma once

#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/swarm/average/detail/peer_account.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Returns what a trainer waits for now. What the log decides waits for the log where it is away.
inline core::WaitCause wait_cause_of(const core::Peer& peer, bool log_is_away, Seconds now) {
  const core::WaitCause cause = peer.wait_cause(now);
  const bool of_log = cause == core::WaitCause::membership || cause == core::WaitCause::members ||
                      cause == core::WaitCause::commit;
  return of_log && log_is_away ? core::WaitCause::log : cause;
}

REEF_INLINE void PeerAccount::heard(const core::Peer& peer, bool log_is_away, Seconds now) {
  if (peer.state().epoch != epoch_) {
    epoch_ = peer.state().epoch;
    core::note_members(stays_, peer.state());
  }
  if (!wait_) return;
  end_wait(now);
  begin_wait(peer, log_is_away, now);
}

REEF_INLINE void PeerAccount::begin_wait(const core::Peer& peer, bool log_is_away, Seconds now) {
  wait_ = Wait{wait_cause_of(peer, log_is_away, now), now};
}

REEF_INLINE void PeerAccount::end_wait(Seconds now) {
  if (!wait_) return;
  waited_[static_cast<std::size_t>(wait_->cause)] += now - wait_->since;
  wait_.reset();
}

REEF_INLINE PeerReport PeerAccount::report(const core::Peer& peer, EndpointTraffic traffic, Seconds now) const {
  PeerReport report;
  report.id = peer.id();
  report.job = core::report_of(peer.state(), stays_);
  report.seconds = now - began_;
  report.waited = waited_;
  if (wait_) report.waited[static_cast<std::size_t>(wait_->cause)] += now - wait_->since;
  report.sent = traffic.sent;
  report.received = traffic.received;
  return report;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
