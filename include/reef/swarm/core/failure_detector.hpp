#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/deadlines.hpp>
#include <reef/swarm/core/peer_id.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// A window of the last durations of a repeated action, and a bound for the next one: median + k MAD, where MAD is the
/// median of the absolute deviations from the median. A few outliers change neither.
///
/// \code
/// swarm::DurationWindow steps(16);
/// for (int step = 0; step < 8; ++step) steps.add(1.5);
/// const Seconds longest = steps.bound(4);  // 1.5
/// \endcode
class DurationWindow {
public:
  explicit DurationWindow(std::size_t kept = 16) : kept_(kept) {}

  void add(Seconds duration);
  [[nodiscard]] std::size_t size() const { return durations_.size(); }
  /// Returns the bound median + k MAD in seconds; 0 without durations.
  [[nodiscard]] Seconds bound(double k) const;

  friend bool operator==(const DurationWindow&, const DurationWindow&) = default;

private:
  std::size_t kept_;
  std::deque<Seconds> durations_;
};

/// A detector of failed peers. It only suspects, and removes nobody: a wrong suspicion costs time alone. The clock is
/// the caller's, any that never goes back.
///
/// | suspected | nothing was heard of the peer for `suspect`, or its connection is lost and was not restored   |
/// | stalled   | the peer is heard, but makes no progress for longer than the bound of its own steps, at least |
/// |           | `suspect`: its thread stands in other code                                                    |
///
/// \code
/// swarm::FailureDetector detector({.beat = 0.25, .suspect = 2.5});
/// detector.heard({"garage", 1}, 0.0);
/// const bool gone = detector.suspects({"garage", 1}, 3.0);  // true
/// \endcode
class FailureDetector {
public:
  explicit FailureDetector(Deadlines deadlines = {}, double deviations = 8)
      : deadlines_(deadlines), deviations_(deviations) {}

  /// Notes a sign of life of a peer, at time `now`.
  void heard(const PeerId& peer, Seconds now);
  /// Notes that a peer has finished one more micro-batch than before, at time `now`.
  void progressed(const PeerId& peer, Seconds now);
  /// Notes that the connection to a peer is lost and could not be restored.
  void lost(const PeerId& peer);
  void forget(const PeerId& peer);

  [[nodiscard]] bool suspects(const PeerId& peer, Seconds now) const;
  [[nodiscard]] bool stalled(const PeerId& peer, Seconds now) const;
  /// Returns for how many seconds nothing was heard of a peer; nothing if the peer was never heard.
  [[nodiscard]] std::optional<Seconds> silence(const PeerId& peer, Seconds now) const;
  /// Returns the peers that were heard and are not suspected at time `now`, ascending.
  [[nodiscard]] std::vector<PeerId> reached(Seconds now) const;

  friend bool operator==(const FailureDetector&, const FailureDetector&) = default;

private:
  struct Record {
    Seconds heard = 0;
    Seconds progressed = 0;
    bool connected = true;
    DurationWindow steps{};

    friend bool operator==(const Record&, const Record&) = default;
  };

  Deadlines deadlines_;
  double deviations_;
  std::map<PeerId, Record> records_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/failure_detector.ipp>
#endif
