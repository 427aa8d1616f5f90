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

  void validate() const;
  /// The round that is planned or acted on at that time; below 0: none yet.
  [[nodiscard]] std::int64_t round(Milliseconds now) const;
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
Swarm swarm_at(int blocks, std::span<const Announcement> announcements, Milliseconds time);

/// What a server may do of the plan of the round at `now`; nothing where the plan leaves it where it is.
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

/// What a server announces when it begins a move: it loads the new blocks, and serves the old ones still.
SwarmServer begin_move(SwarmServer server, int start);

/// What it announces when it has loaded: it holds both.
SwarmServer loaded(SwarmServer server);

/// Whether a server that holds both may drop its old blocks: others have loaded all of them, where they
/// are to stay, but for those that are among its new ones.
bool may_drop(const Swarm& swarm, std::string_view id);

/// What it announces when it has dropped them.
SwarmServer dropped(SwarmServer server);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/balance_round.ipp>
#endif
