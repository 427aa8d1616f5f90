#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/serve/served_span.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

class Endpoint;

namespace detail {

/// The servers that are in the store, and this process' own line in it. What comes on threads of the store is posted to
/// the loop of an endpoint; all functions are called on that loop.
class Roster {
public:
  /// `found`: is given all servers that are in the store, each time that it is read.
  Roster(Presence& presence, Endpoint& endpoint, std::function<void(const std::vector<ServedSpan>&)> found);
  ~Roster();
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  /// Posts nothing to the endpoint any more, which may then be destroyed before this object.
  void stop();

  /// Writes this server's line, now and before its lease runs out.
  void announce(const ServedSpan& span);
  /// Takes this server's line out of the store.
  void withdraw();
  /// Renews the line and reads those of others, where it is time.
  void tick(Seconds now);
  /// Reads the lines of others at the next tick.
  void look_soon() { looked_ = -1e9; }

private:
  struct Hub;

  void look();

  static constexpr Seconds lease = 3;

  Presence& presence_;
  std::function<void(const std::vector<ServedSpan>&)> found_;
  std::shared_ptr<Hub> hub_;
  std::string key_;
  std::string text_;
  bool looking_ = false;
  Seconds renewed_ = -1e9;
  Seconds looked_ = -1e9;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/serve/detail/roster.ipp>
#endif
