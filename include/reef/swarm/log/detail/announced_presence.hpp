#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/log/detail/loop_gate.hpp>
#include <reef/swarm/log/presence.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// A process' own presence in a store, which is renewed before its lease runs out, and a look at those of all, where it
/// is time. All functions are called on the loop of the gate's endpoint; after the gate is closed none is.
class AnnouncedPresence {
public:
  /// `found`: is given all presences that stand, each time that they are read.
  AnnouncedPresence(Presence& presence, std::shared_ptr<LoopGate> gate,
                    std::function<void(const std::vector<PresentKey>&)> found);

  /// Writes the presence now, and again by tick().
  void announce(std::string key, std::string value);
  /// Changes the value with the next renewal, within a third of a lease; nothing without a presence.
  void change(std::string value) {
    if (!value_.empty()) value_ = std::move(value);
  }
  /// Takes the presence out of the store.
  void withdraw();
  /// Renews the presence, and reads all after `every` seconds.
  void tick(Seconds now, Seconds every);
  /// Reads all at the next tick.
  void look_soon() { looked_ = -1e9; }

private:
  void write();
  void look();

  static constexpr Seconds lease = 3;

  Presence& presence_;
  std::shared_ptr<LoopGate> gate_;
  std::function<void(const std::vector<PresentKey>&)> found_;
  std::string key_;
  std::string value_;
  bool looking_ = false;
  Seconds renewed_ = -1e9;
  Seconds looked_ = -1e9;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/announced_presence.ipp>
#endif
