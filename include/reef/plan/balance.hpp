#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/plan/swarm.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Options of balance. The defaults are those of `bench/plan/swarm_day.hpp`.
struct BalanceOptions {
  std::int64_t price_ppm = 550'000;  ///< the price of a move, which must bring price / servers more throughput
  int targets = 3;  ///< the number of target throughputs, evenly from the present one to the bound
  int beam = 4;     ///< the width of the beam: placements followed at a time
  int moves = 10;   ///< the most moves, one after the other
};

/// The move of a server to other blocks.
struct BalanceMove {
  std::string id;
  int from = SwarmServer::nowhere;  ///< the first block before; nowhere: the server has joined and held none
  int start = 0;

  friend bool operator==(const BalanceMove&, const BalanceMove&) = default;
};

/// A plan: the servers that are to hold other blocks, all at once.
struct BalancePlan {
  std::uint64_t version =
      0;  ///< the version of the swarm that the plan is for: equal on all servers that saw the same swarm
  std::vector<BalanceMove> moves;  ///< the moves, in ascending order of ids
  Throughput now = 0;              ///< the throughput of the slowest block, before the moves
  Throughput then = 0;             ///< the throughput of the slowest block, after the moves
  Throughput bound = 0;            ///< throughput_bound: no placement of these servers serves more

  /// Returns the move of one server, or null if it has none.
  [[nodiscard]] const BalanceMove* find(std::string_view id) const&;
  void find(std::string_view) const&& = delete;

  friend bool operator==(const BalancePlan&, const BalancePlan&) = default;
};

/// Returns a hash of a swarm: equal on servers that see the same swarm, in whatever order.
std::uint64_t version_of(const Swarm& swarm);

/// Returns true if a plan may move a server: it has joined and holds nothing, or holds one span and
/// loads none.
bool may_move(const SwarmServer& server);

/// Plans few moves that bring a swarm near to its throughput bound: the same on all servers that see the same swarm.
///
/// For each of some targets T between now and the bound, relocations are looked for that lessen
///
///     sum over blocks of max(0, T - t[i])^2
///
/// by a beam search, so that moves are found that pay together and not alone. Of all placements on the way
/// the one of most worth is taken: min_i t[i], less price / servers of it for each server that moves.
/// Servers that have joined and hold nothing are placed first, the greatest first, and at no price.
///
/// | numbers | whole: no answer depends on how a machine rounds                                           |
/// | order   | of servers, and their names, but for ties, change nothing                                  |
/// | serving | then > 0 wherever the servers that may move, and have throughput, have room for all blocks |
/// | loading | servers count at their new blocks, and stay there until they have dropped the old ones     |
/// | cost    | O(targets * moves * beam * servers * L)                                                    |
/// | errors  | OptionError: of Swarm::validate, and for invalid options                                   |
///
/// The rule of Borzunov et al., arXiv 2312.08361, appendix D, lets each server decide alone (should_move):
/// servers that do not see each other's last moves all go to the same gap. The rule of this function decides which
/// servers move.
///
/// \code
/// // given: const plan::Swarm& swarm
/// const plan::BalancePlan moves = plan::balance(swarm);
/// const plan::BalanceMove* const mine = moves.find("server-7");
/// const int start = mine != nullptr ? mine->start : plan::SwarmServer::nowhere;
/// \endcode
BalancePlan balance(const Swarm& swarm, const BalanceOptions& options = {});

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/balance.ipp>
#endif
