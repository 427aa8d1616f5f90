#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/plan/balance.hpp>
#include <reef/plan/swarm.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Milliseconds on the clock that all servers of a swarm share.
using Milliseconds = std::int64_t;

/// The announcement of a server of a swarm about itself, and its time.
struct Announcement {
  Milliseconds time = 0;
  SwarmServer server;
};

/// The times at which servers of a swarm plan their moves. The plan of round k is made from the announcements up to its
/// snapshot, once these have reached all servers, and is carried out before the snapshot of round k + 1, which
/// therefore shows all moves of round k.
///
///     snapshot(k) = k * period          act in [snapshot(k) + settle, snapshot(k + 1))
///
/// | laws   | servers whose announcements travel no longer than `settle` make the same plan in a round, |
/// |        | and know every move of the round before: two servers never fill the same gap              |
/// | errors | OptionError unless 0 <= settle < period                                                   |
struct BalanceClock {
  Milliseconds period = 60'000;
  Milliseconds settle = 30'000;  ///< the longest time that an announcement travels, in milliseconds

  void validate() const;
  /// Returns the number of the planning period (round) whose plan is made or carried out at a time; -1: the first has
  /// not begun.
  [[nodiscard]] std::int64_t round(Milliseconds now) const;
  [[nodiscard]] Milliseconds snapshot(std::int64_t round) const { return round * period; }
};

/// The right of one server to make the move that a plan gives it, until the next snapshot. A server that is too late
/// does not move, and the next plan starts from the blocks that it still holds.
struct BalanceLease {
  std::int64_t round = 0;
  std::uint64_t version = 0;  ///< the version of the plan (BalancePlan::version)
  BalanceMove move;
  Milliseconds begin = 0;
  Milliseconds end = 0;

  [[nodiscard]] bool holds(Milliseconds now) const { return begin <= now && now < end; }
};

/// Returns the swarm of servers as it was announced up to a time: the last announcement of each server. Servers that
/// are offline are left out.
Swarm swarm_at(int blocks, std::span<const Announcement> announcements, Milliseconds time);

/// Returns the right of a server to make its move in the plan of the round at `now`; nothing if the plan has no move
/// for it.
///
/// \code
/// // given: const std::vector<plan::Announcement>& heard, plan::Milliseconds now
/// const plan::BalanceClock clock;
/// const plan::Swarm swarm = plan::swarm_at(80, heard, clock.snapshot(clock.round(now)));
/// const auto lease = plan::lease_of(plan::balance(swarm), clock, "server-7", now);
/// const bool moves = lease && lease->holds(now);
/// \endcode
std::optional<BalanceLease> lease_of(const BalancePlan& plan, const BalanceClock& clock,
                                     std::string_view id, Milliseconds now);

/// Returns the announcement of a server that begins to move to the blocks from `start` on: it loads the new blocks, and
/// still serves the old ones.
SwarmServer begin_move(SwarmServer server, int start);

/// Returns the announcement of a moving server that has loaded its new blocks: it holds the old ones and the new ones.
SwarmServer finish_move(SwarmServer server);

/// Returns true if a server that holds old and new blocks may drop the old ones: each of the old blocks is among its
/// new blocks, or among the new blocks of another server that has loaded them.
bool may_drop(const Swarm& swarm, std::string_view id);

/// Returns the announcement of a moving server that has dropped its old blocks.
SwarmServer dropped(SwarmServer server);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/balance_round.ipp>
#endif
