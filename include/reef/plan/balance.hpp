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

/// Options of balance(), which moves servers of a swarm. The defaults are those of `bench/plan/swarm_day.hpp`.
struct BalanceOptions {
  /// Price of a move: each must raise throughput by price_ppm / servers millionths of it.
  std::int64_t price_ppm = 550'000;
  int targets = 3;  ///< number of throughputs that the search aims at, evenly spaced from the present one to the bound
  int beam = 4;     ///< width of the beam search: number of placements of blocks on servers kept after each move
  int moves = 10;   ///< depth of the beam search: the most moves of servers in a row
};

/// The move of a server of a swarm from some consecutive blocks of the model to others.
struct BalanceMove {
  std::string id;
  int from = SwarmServer::nowhere;  ///< the server's first block before the move; nowhere: it held no blocks
  int start = 0;                    ///< the server's first block after the move

  friend bool operator==(const BalanceMove&, const BalanceMove&) = default;
};

/// A plan of balance(): the servers that are to move to other blocks, all at once.
struct BalancePlan {
  std::uint64_t version =
      0;  ///< hash of the swarm (version_of) for which the plan was made: equal on all servers that saw this swarm
  std::vector<BalanceMove> moves;  ///< moves of servers, in ascending order of their ids
  Throughput now = 0;  ///< the throughput of the slowest block, before the moves, in millionths of a request per second
  Throughput then = 0;  ///< the throughput of the slowest block, after the moves, in millionths of a request per second
  Throughput bound = 0;  ///< upper bound of the swarm's throughput (throughput_bound): no placement has a higher one

  /// Returns the move of the server with this id, or null if the plan does not move it.
  [[nodiscard]] const BalanceMove* find(std::string_view id) const&;
  void find(std::string_view) const&& = delete;

  friend bool operator==(const BalancePlan&, const BalancePlan&) = default;
};

/// Returns a hash of a swarm of servers, which does not depend on the order of its servers.
std::uint64_t version_of(const Swarm& swarm);

/// Returns true if balance() may move a server: it is not offline and holds no blocks yet, or it is online and holds a
/// single range of blocks.
bool may_move(const SwarmServer& server);

/// Plans a few moves of servers that bring a swarm near its throughput bound; equal on all servers that see the same
/// swarm.
///
/// For each of some target throughputs T, up to the bound, a beam search moves servers one by one so as to lessen
///
///     sum over blocks i of max(0, T - t[i])^2,    t = block_throughputs(swarm)
///
/// and so finds moves that pay together though none pays alone. Of all placements that it visits, the plan has the
/// one of greatest worth: min_i t[i], less the fraction price / servers of it for each server that moves.
/// Servers that hold no blocks yet are placed first, those with most throughput * length first, at no price.
///
/// | numbers | integers: the plan does not depend on how a machine rounds                                     |
/// | order   | the order of servers and, except in ties, their names do not change the plan                   |
/// | serving | `then` > 0 if those servers that may move and have throughput have room for all blocks         |
/// | loading | a loading server counts at its new blocks, and is not moved before it has dropped the old ones |
/// | cost    | O(targets * moves * beam * servers * blocks)                                                   |
/// | errors  | OptionError for invalid options; the errors of Swarm::validate                                 |
///
/// By the rule of Borzunov et al., arXiv 2312.08361, appendix D, each server decides alone (should_move): servers
/// that do not see each other's last moves all go to the same gap. This function decides for all servers together
/// which of them move.
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
