#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/plan/detail/window_order.hpp>
#include <reef/plan/swarm.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Returns the first block of the window where a server with room for `length` blocks is needed most: the window whose
/// throughputs, sorted in ascending order, come first in lexicographical order.
///
/// | t      | (L,): the throughput of each block       |
/// | ties   | the leftmost window                      |
/// | cost   | O(L log L + L^2 / 64)                    |
/// | errors | OptionError unless length is from 1 to L |
///
/// Source: Borzunov et al., arXiv 2312.08361, appendix D, as the public code does it.
///
/// \code
/// const std::vector<double> t{3, 1, 1, 2};                            // throughput by block
/// const int start = plan::best_start(std::span<const double>(t), 2);  // 1
/// \endcode
template <class Number>
int best_start(std::span<const Number> t, int length) {
  if (length < 1 || static_cast<std::size_t>(length) > t.size()) {
    throw OptionError("reef::plan::best_start: room for ", length, " of ", t.size(),
                      " blocks.\n  fix: from 1 block to all.");
  }
  // Only windows that contain a block of least throughput can come first in lexicographical order.
  const Number least = *std::ranges::min_element(t);
  const auto room = static_cast<std::size_t>(length);
  const auto first = static_cast<std::size_t>(std::ranges::find(t, least) - t.begin());
  std::size_t last = t.size() - 1;
  while (t[last] != least) --last;
  const std::size_t begin = first + 1 > room ? first + 1 - room : 0;
  const std::size_t end = (std::min)(t.size(), last + room);
  detail::WindowOrder order(t.subspan(begin, end - begin), length);
  int best = static_cast<int>(begin);
  for (std::size_t start = begin + 1; start + room <= end; ++start) {
    if (order.next_comes_before_best()) best = static_cast<int>(start);
  }
  return best;
}

/// Places servers that join a swarm one after the other, each at the blocks where it is needed most when it joins.
/// Returns the first block of each, in the order of `swarm.servers`. The servers' present blocks do not count.
///
/// Returns the starts, in the order of `swarm.servers`. The servers' present blocks do not count.
std::vector<int> join_in_turn(const Swarm& swarm);

/// The speeds of a server of a swarm, from which advertised_throughput() computes the throughput that it announces.
struct ServerSpeed {
  double forward_rps = 0;               ///< requests per second for one block of the model
  std::optional<double> network_rps{};  ///< requests per second that the link to the server carries; nothing: no limit
  int blocks = 0;                       ///< number of blocks of the model that the server holds
  bool relay =
      false;  ///< true: the server is reached through another machine, which leaves a fifth of the link's rate
};

/// Returns the throughput that a server of a swarm announces, in requests per second:
///
///     min(forward_rps / ((K + 1) / 2), network_rps (a fifth where relayed))
///
/// A request uses (K + 1) / 2 of the K = speed.blocks blocks on average. Throws OptionError, naming the figures,
/// unless rates are from 0 to 1e15, and K is at least 1.
double advertised_throughput(const ServerSpeed& speed);

/// The decision of a server of a swarm to move to other blocks or to stay, and the figures behind it.
struct MoveDecision {
  bool move = false;
  Throughput now = 0;  ///< the throughput of the swarm before any move, in millionths of a request per second
  /// The throughput after the moves of all servers, if these were simulated, in the same unit.
  std::optional<Throughput> then{};
  int sweeps = 0;                    ///< the number of simulated passes over all servers
};

/// Decides by the published rule whether a server moves. The rule simulates that this server goes to the blocks that
/// need it most, then sweeps over all servers until none moves, and asks that throughput `then` exceeds `now` enough.
///
///     move  <=>  balance_quality > 1,  or  now / then < balance_quality - 0.001
///
/// | guard   | (in the public code, not in the paper) the server stays if a block of a swarm that serves           |
/// |         | would be left without servers                                                                       |
/// | inertia | 1.001 times a server's throughput is taken off its own blocks before it chooses: it prefers to stay |
/// | order   | servers are visited in ascending order of ids, shuffled by `seed` for each sweep                    |
/// | quality | balance_quality is 1 / (1 + p) for a gain of p: 0.75 in the public code, 0.8333 (20 %) in the paper |
/// | errors  | OptionError unless `me` is a server that holds blocks; the errors of Swarm::validate                |
///
/// Source: Borzunov et al., arXiv 2312.08361, appendix D. Deviation: integers, where the public code has
/// floating-point numbers; sweeps always end, since the sorted throughputs of all blocks grow with every move.
MoveDecision should_move(const Swarm& swarm, std::string_view me, double balance_quality,
                         std::uint64_t seed = 0, bool guard = true);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/block_choice.ipp>
#endif
