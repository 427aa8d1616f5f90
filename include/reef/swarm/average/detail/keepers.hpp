#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/event.hpp>
#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/detail/announced_presence.hpp>
#include <reef/swarm/log/detail/loop_gate.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/net/endpoint.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The link of a peer to the log of its job and to the presences beside it. What comes on threads of the log is
/// posted to the loop of the peer's endpoint; functions are called on that loop.
class Keepers {
public:
  /// `hear` is given what the peer must hear of; `found`, the members and others whose presence was found.
  Keepers(DecisionLog& log, Presence& presence, Endpoint& endpoint, std::function<void(core::Event)> hear,
          std::function<void(const std::vector<PeerPresence>&)> found);
  ~Keepers();
  Keepers(const Keepers&) = delete;
  Keepers& operator=(const Keepers&) = delete;

  /// Posts nothing to the endpoint any more, which may then be destroyed before this object.
  void stop() { gate_->close(); }

  /// Finds out how long the log is, and watches it from its beginning.
  void start();
  /// Appends an entry; the peer hears of the answer.
  void append(std::int64_t index, const Entry& entry);
  /// Writes a presence now, and again before its lease runs out.
  void announce(const PeerPresence& presence);
  /// Renews the presence and looks for those of others, where it is time. `beat`: seconds between two calls, about.
  void tick(Seconds now, Seconds beat);

  /// Runs a function on the loop; it is dropped once this object has gone.
  void post(std::function<void()> function) { gate_->post(std::move(function)); }
  /// Returns why the log does not answer; empty if it does. Any thread.
  [[nodiscard]] std::string away() const;
  /// Returns what of the log was found rewritten or deleted; empty where nothing was.
  [[nodiscard]] std::string tampering() const { return log_.tampering(); }

private:
  void find_end(LogIndex index);
  void note(std::string away);
  void look_at(const std::vector<PresentKey>& keys);

  DecisionLog& log_;
  Endpoint& endpoint_;
  std::function<void(core::Event)> hear_;
  std::function<void(const std::vector<PeerPresence>&)> found_;
  std::shared_ptr<LoopGate> gate_;
  AnnouncedPresence presence_;
  LogWatch watch_;
  mutable std::mutex mutex_;
  std::string away_{};
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/detail/keepers.ipp>
#endif
