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

/// What a plan weighs. The defaults are those of `bench/plan/swarm_day.hpp`.
struct BalanceOptions {
  std::int64_t price_ppm = 550'000;  ///< a move must bring price / servers more throughput
  int targets = 3;  ///< throughputs that are aimed at, evenly from now to the bound
  int beam = 4;     ///< placements that are followed at a time
  int moves = 10;   ///< one after the other at most
};

/// A server that is to hold other blocks.
struct BalanceMove {
  std::string id;
  int from = SwarmServer::nowhere;  ///< nowhere: it has come and held none
  int start = 0;

  friend bool operator==(const BalanceMove&, const BalanceMove&) = default;
};

/// Who is to hold other blocks, all at once.
struct BalancePlan {
  std::uint64_t version =
      0;  ///< of the swarm that it was made for: equal on all servers that saw the same
  std::vector<BalanceMove> moves;  ///< in ascending order of ids
  Throughput now = 0;              ///< of the slowest block
  Throughput then = 0;             ///< after the moves
  Throughput bound = 0;            ///< throughput_bound: no placement of these servers serves more

  /// What one server is to do, or nothing.
  [[nodiscard]] const BalanceMove* find(std::string_view id) const&;
  void find(std::string_view) const&& = delete;

  friend bool operator==(const BalancePlan&, const BalancePlan&) = default;
};

/// A number that is equal where servers see the same swarm, in whatever order.
std::uint64_t version_of(const Swarm& swarm);

/// Whether a plan may send a server elsewhere: it has come and holds nothing, or holds one span and
/// loads none.
bool may_move(const SwarmServer& server);

/// Few moves that bring a swarm near to what it can serve: the same on all servers that see the same swarm.
///
/// For each of some targets T between now and the bound, relocations are looked for that lessen
///
///     sum over blocks of max(0, T - t[i])^2
///
/// by a beam search, so that moves are found that pay together and not alone. Of all placements on the way
/// that one is taken which is worth most: min_i t[i], less price / servers of it for each server that moves.
/// Who has come and holds nothing is placed first, the greatest first, and at no price.
///
/// | numbers | whole: no answer depends on how a machine rounds                                    |
/// | order   | of servers, and their names, but for ties, change nothing                           |
/// | serving | then > 0 wherever those that may move, and have throughput, have room for all blocks   |
/// | loading | servers count where they go, and stay there until they have dropped the old blocks     |
/// | cost    | O(targets * moves * beam * servers * L)                                             |
/// | errors  | OptionError: of Swarm::validate, and for options that cannot be                     |
///
/// The rule of Borzunov et al., arXiv 2312.08361, appendix D, lets each server decide alone (should_move):
/// servers that do not see each other's last moves all go to the same gap. This one says who moves.
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
