#pragma once

#include <algorithm>
#include <cmath>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/failure_detector.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

/// Returns the median, the mean of the two middle ones of an even number.
inline Seconds median_of(std::vector<Seconds> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace detail

REEF_INLINE void DurationWindow::add(Seconds duration) {
  durations_.push_back(duration);
  if (durations_.size() > kept_) durations_.pop_front();
}

REEF_INLINE Seconds DurationWindow::bound(double k) const {
  if (durations_.empty()) return 0;
  std::vector<Seconds> values(durations_.begin(), durations_.end());
  const Seconds median = detail::median_of(values);
  for (Seconds& value : values) value = std::fabs(value - median);
  return median + k * detail::median_of(std::move(values));
}

REEF_INLINE void FailureDetector::heard(const PeerId& peer, Seconds now) {
  const auto [at, is_new] = records_.try_emplace(peer);
  at->second.heard = now;
  at->second.connected = true;
  if (is_new) at->second.progressed = now;
}

REEF_INLINE void FailureDetector::progressed(const PeerId& peer, Seconds now) {
  heard(peer, now);
  Record& record = records_[peer];
  record.steps.add(now - record.progressed);
  record.progressed = now;
}

REEF_INLINE void FailureDetector::lost(const PeerId& peer) {
  const auto found = records_.find(peer);
  if (found != records_.end()) found->second.connected = false;
}

REEF_INLINE void FailureDetector::forget(const PeerId& peer) { records_.erase(peer); }

REEF_INLINE bool FailureDetector::suspects(const PeerId& peer, Seconds now) const {
  const auto found = records_.find(peer);
  return found == records_.end() || !found->second.connected || now - found->second.heard > deadlines_.suspect;
}

REEF_INLINE bool FailureDetector::stalled(const PeerId& peer, Seconds now) const {
  const auto found = records_.find(peer);
  if (found == records_.end() || suspects(peer, now) || found->second.steps.size() == 0) return false;
  const Seconds longest = (std::max)(deadlines_.suspect, found->second.steps.bound(deviations_));
  return now - found->second.progressed > longest;
}

REEF_INLINE std::optional<Seconds> FailureDetector::silence(const PeerId& peer, Seconds now) const {
  const auto found = records_.find(peer);
  if (found == records_.end()) return std::nullopt;
  return now - found->second.heard;
}

REEF_INLINE std::vector<PeerId> FailureDetector::reached(Seconds now) const {
  std::vector<PeerId> peers;
  for (const auto& [peer, record] : records_) {
    if (!suspects(peer, now)) peers.push_back(peer);
  }
  return peers;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
