#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/plan/balance_round.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE void BalanceClock::validate() const {
  if (settle >= 0 && settle < period) return;
  throw OptionError("reef::plan::BalanceClock: ", settle, " ms to settle in a period of ", period,
                    " ms.\n  fix: less than the period, 0 or more.");
}

REEF_INLINE std::int64_t BalanceClock::round(Milliseconds now) const {
  const Milliseconds since = now - settle;
  return since >= 0 ? since / period : -1;
}

REEF_INLINE Swarm swarm_at(int blocks, std::span<const Announcement> announcements,
                           Milliseconds time) {
  std::map<std::string_view, const Announcement*> last;
  for (const Announcement& said : announcements) {
    if (said.time > time) continue;
    const Announcement*& known = last[said.server.id];
    if (known == nullptr || known->time <= said.time) known = &said;
  }
  Swarm swarm;
  swarm.blocks = blocks;
  for (const auto& [id, said] : last) {
    if (said->server.state != ServerState::offline) swarm.servers.push_back(said->server);
  }
  return swarm;
}

REEF_INLINE std::optional<BalanceLease> lease_of(const BalancePlan& plan, const BalanceClock& clock,
                                                 std::string_view id, Milliseconds now) {
  clock.validate();
  const BalanceMove* const move = plan.find(id);
  const std::int64_t round = clock.round(now);
  if (move == nullptr || round < 0) return std::nullopt;
  const Milliseconds taken = clock.snapshot(round);
  const BalanceLease lease{round, plan.version, *move, taken + clock.settle, taken + clock.period};
  if (!lease.holds(now)) return std::nullopt;
  return lease;
}

REEF_INLINE SwarmServer begin_move(SwarmServer server, int start) {
  if (server.state == ServerState::online) server.old_start = server.start;
  server.start = start;
  server.state = ServerState::joining;
  return server;
}

REEF_INLINE SwarmServer finish_move(SwarmServer server) {
  server.state = ServerState::online;
  return server;
}

REEF_INLINE bool may_drop(const Swarm& swarm, std::string_view id) {
  const int at = swarm.find(id);
  if (at < 0) return false;
  const SwarmServer& own = swarm.servers[static_cast<std::size_t>(at)];
  if (own.state != ServerState::online || own.old_start == SwarmServer::nowhere) return false;
  std::vector<bool> held(static_cast<std::size_t>(swarm.blocks));
  for (const SwarmServer& server : swarm.servers) {
    if (server.state != ServerState::online || server.start == SwarmServer::nowhere) continue;
    for (int i = server.start; i < server.end(); ++i) held[static_cast<std::size_t>(i)] = true;
  }
  for (int i = own.old_start; i < own.old_start + own.length; ++i) {
    if (!held[static_cast<std::size_t>(i)]) return false;
  }
  return true;
}

REEF_INLINE SwarmServer dropped(SwarmServer server) {
  server.old_start = SwarmServer::nowhere;
  return server;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
