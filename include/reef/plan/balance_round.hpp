#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/plan/balance.hpp>
#include <reef/plan/swarm.hpp>

namespace reef::inline v0::plan {

/// Milliseconds on the clock that all servers of a swarm share.
using Milliseconds = std::int64_t;

/// What a server said of itself, and when.
struct Announcement {
  Milliseconds time = 0;
  SwarmServer server;
};

/// When servers plan. Round k is planned from what was announced up to its snapshot, once that has
/// reached all, and acted on before the snapshot of round k + 1, which therefore holds all that came of
/// it.
///
///     snapshot(k) = k * period          act in [snapshot(k) + settle, snapshot(k + 1))
///
/// | laws   | servers whose announcements travel no longer than `settle` make the same plan of a round,  |
/// |        | and no move of one round is unknown to the next: two servers never act on one gap          |
/// | errors | OptionError unless 0 <= settle < period                                                    |
struct BalanceClock {
  Milliseconds period = 60'000;
  Milliseconds settle = 30'000;  ///< the longest way of an announcement

  void validate() const {
    if (settle >= 0 && settle < period) return;
    throw OptionError("reef::plan::BalanceClock: ", settle, " ms to settle in a period of ", period,
                      " ms.\n  fix: less than the period, 0 or more.");
  }
  /// The round that is planned or acted on at that time; below 0: none yet.
  [[nodiscard]] std::int64_t round(Milliseconds now) const {
    const Milliseconds since = now - settle;
    return since >= 0 ? since / period : -1;
  }
  [[nodiscard]] Milliseconds snapshot(std::int64_t round) const { return round * period; }
};

/// The right of one server to what a plan gives it, until the next snapshot: who is later than that lets
/// it be, and the next plan begins from where it stayed.
struct BalanceLease {
  std::int64_t round = 0;
  std::uint64_t version = 0;  ///< of the plan
  BalanceMove move;
  Milliseconds begin = 0;
  Milliseconds end = 0;

  [[nodiscard]] bool holds(Milliseconds now) const { return begin <= now && now < end; }
};

/// A swarm as it was announced up to a time: of each server the last of what it said. Who is offline is
/// left out.
inline Swarm swarm_at(int blocks, std::span<const Announcement> announcements, Milliseconds time) {
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

/// What a server may do of the plan of the round at `now`; nothing where the plan leaves it where it is.
inline std::optional<BalanceLease> lease_of(const BalancePlan& plan, const BalanceClock& clock,
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

/// What a server announces when it begins a move: it loads the new blocks, and serves the old ones still.
inline SwarmServer begin_move(SwarmServer server, int start) {
  if (server.state == ServerState::online) server.old_start = server.start;
  server.start = start;
  server.state = ServerState::joining;
  return server;
}

/// What it announces when it has loaded: it holds both.
inline SwarmServer loaded(SwarmServer server) {
  server.state = ServerState::online;
  return server;
}

/// Whether a server that holds both may drop its old blocks: others have loaded all of them, where they
/// are to stay, but for those that are among its new ones.
inline bool may_drop(const Swarm& swarm, std::string_view id) {
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

/// What it announces when it has dropped them.
inline SwarmServer dropped(SwarmServer server) {
  server.old_start = SwarmServer::nowhere;
  return server;
}

}  // namespace reef::inline v0::plan
