#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/event.hpp>
#include <reef/swarm/log/decision_log.hpp>
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
  void stop();

  /// Finds out how long the log is, and watches it from its beginning.
  void start();
  /// Appends an entry; the peer hears of the answer.
  void append(std::int64_t index, const Entry& entry);
  /// Writes a presence now, and again before its lease runs out.
  void announce(const PeerPresence& presence);
  /// Renews the presence and looks for those of others, where it is time. `beat`: seconds between two calls, about.
  void tick(Seconds now, Seconds beat);

  /// Runs a function on the loop; it is dropped once this object has gone.
  void post(std::function<void()> function);
  /// Returns why the log does not answer; empty if it does. Any thread.
  [[nodiscard]] std::string away() const;
  /// Returns what of the log was found rewritten or deleted; empty where nothing was.
  [[nodiscard]] std::string tampering() const { return log_.tampering(); }

private:
  /// The way from the log's threads to the loop, which outlives this object in callbacks that come late.
  struct Hub {
    mutable std::mutex mutex;
    Endpoint* endpoint = nullptr;
    std::string away{};

    void post(std::function<void()> function);
  };

  void find_end(LogIndex index);
  void note(std::string away);
  void look();

  static constexpr Seconds lease = 3;

  DecisionLog& log_;
  Endpoint& endpoint_;
  Presence& presence_;
  std::function<void(core::Event)> hear_;
  std::function<void(const std::vector<PeerPresence>&)> found_;
  std::shared_ptr<Hub> hub_;
  LogWatch watch_;
  std::string key_;
  std::string announced_;
  bool looking_ = false;
  Seconds renewed_ = -1e9;
  Seconds looked_ = -1e9;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/detail/keepers.ipp>
#endif
