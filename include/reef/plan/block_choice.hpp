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

/// Where a server with room for `length` blocks is needed most: the window whose throughputs, sorted in
/// ascending order, come first in lexicographical order.
///
/// | t      | (L,): of each block                                       |
/// | ties   | the leftmost window                                       |
/// | cost   | O(L log L + L^2 / 64)                                     |
/// | errors | OptionError unless length is from 1 to L                  |
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
  // Only windows that hold a least block can be the first.
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

/// Servers that come one after the other, each to where it is needed most when it comes.
///
/// Returns the starts, in the order of `swarm.servers`. Where they stand already is not looked at.
std::vector<int> join_in_turn(const Swarm& swarm);

/// What a server announces.
struct ServerSpeed {
  double forward_rps = 0;               ///< of one block, requests per second
  std::optional<double> network_rps{};  ///< of the link to the server; nothing: no limit
  int blocks = 0;                       ///< that it holds
  bool relay =
      false;  ///< whether it is reached through another machine: a fifth of the link is left
};

///     min(forward_rps / ((K + 1) / 2), network_rps (a fifth where relayed))
///
/// A request uses (K + 1) / 2 of the K blocks on average. Throws OptionError, naming what is not a
/// number from 0 to 1e15, and for no block.
double advertised_throughput(const ServerSpeed& speed);

/// What a server decided, and why.
struct MoveDecision {
  bool move = false;
  Throughput now = 0;                ///< of the swarm
  std::optional<Throughput> then{};  ///< after everybody's moves, where they were gone through
  int sweeps = 0;
};

/// Whether the published rule moves a server: it leaves its blocks for those that need it most, all servers
/// then do so one after the other until none moves, and the swarm must serve more than now by a factor.
///
///     move  <=>  balance_quality > 1,  or  now / then < balance_quality - 0.001
///
/// | guard  | of the public code, not of the paper: stays where a swarm that serves would have a     |
/// |        | block without servers after it left                                                    |
/// | inertia| a server's own blocks count for a thousandth of its throughput less than empty ones    |
/// | order  | of the sweeps: drawn by the seed, from servers in ascending order of ids               |
/// | quality| 1 / (1 + p): 0.75 in the public code, 0.8333 in the paper (p = 20 %)                   |
/// | errors | OptionError unless `me` is in the swarm with blocks, and what Swarm::validate throws    |
///
/// Source: Borzunov et al., arXiv 2312.08361, appendix D. Deviation: whole numbers, where the public
/// code rounds; sweeps end, since the sorted throughputs of all blocks grow with every move.
MoveDecision should_move(const Swarm& swarm, std::string_view me, double balance_quality,
                         std::uint64_t seed = 0, bool guard = true);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/block_choice.ipp>
#endif
