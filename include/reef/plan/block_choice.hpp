#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/window_order.hpp>
#include <reef/plan/swarm.hpp>

namespace reef::inline v0::plan {

/// Where a server with room for `length` blocks is needed most: the window whose throughputs, sorted in
/// ascending order, come first in lexicographical order.
///
/// | t      | (L,): of each block                                       |
/// | ties   | the leftmost window                                       |
/// | cost   | O(L log L + L^2 / 64)                                     |
/// | errors | OptionError unless length is from 1 to L                  |
///
/// Source: Borzunov et al., arXiv 2312.08361, appendix D, as the public code does it.
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
  const std::size_t end = std::min(t.size(), last + room);
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
inline std::vector<int> join_in_turn(const Swarm& swarm) {
  swarm.validate();
  std::vector<Throughput> t(static_cast<std::size_t>(swarm.blocks));
  std::vector<int> starts;
  for (const SwarmServer& server : swarm.servers) {
    starts.push_back(best_start<Throughput>(t, server.length));
    add_to_blocks(t, starts.back(), server.length, server.throughput);
  }
  return starts;
}

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
inline double advertised_throughput(const ServerSpeed& speed) {
  const double network = speed.network_rps.value_or(0);
  const bool numbers = within(speed.forward_rps, 0, 1e15) && within(network, 0, 1e15);
  if (!numbers || speed.blocks < 1) {
    throw OptionError("reef::plan::advertised_throughput: forward_rps is ", speed.forward_rps,
                      ", network_rps ", network, ", blocks ", speed.blocks,
                      ".\n  fix: rates from 0 to 1e15, and a block at least.");
  }
  const double compute = speed.forward_rps / ((static_cast<double>(speed.blocks) + 1) / 2);
  if (!speed.network_rps) return compute;
  return std::min(compute, network * (speed.relay ? 0.2 : 1.0));
}

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
inline MoveDecision should_move(const Swarm& swarm, std::string_view me, double balance_quality,
                                std::uint64_t seed = 0, bool guard = true) {
  swarm.validate();
  if (!within(balance_quality, 0, 1e9)) {
    throw OptionError("reef::plan::should_move: balance_quality is ", balance_quality,
                      ".\n  fix: 1 / (1 + p), from 0 to 1, or more than 1 to move always.");
  }
  const int own = swarm.find(me);
  if (own < 0 || !swarm.servers[static_cast<std::size_t>(own)].counts()) {
    throw OptionError("reef::plan::should_move: no server '", me,
                      "' holds blocks of this swarm.\n  fix: one that is joining or online.");
  }
  MoveDecision decision;
  std::vector<Throughput> t = block_throughputs(swarm);
  decision.now = slowest_block(t);
  if (balance_quality > 1) {
    decision.move = true;
    return decision;
  }
  // In thousandths of a unit, so that 1.001 times a throughput is whole.
  constexpr Throughput scale = 1000;
  constexpr Throughput least = 1'000'000;  // 0.001 requests per second
  for (Throughput& block : t) block *= scale;
  std::vector<SwarmServer> servers = swarm.servers;
  const auto leave = [&](const SwarmServer& server) {
    add_to_blocks(t, server.start, server.length, -(scale + 1) * server.throughput);
  };
  const auto settle = [&](SwarmServer& server, int start) {
    add_to_blocks(t, server.start, server.length, server.throughput);
    add_to_blocks(t, start, server.length, scale * server.throughput);
    return std::exchange(server.start, start) != start;
  };
  SwarmServer& mine = servers[static_cast<std::size_t>(own)];
  leave(mine);
  const Throughput now = decision.now * scale;
  if (guard && now > least && slowest_block(t) <= 0) return decision;
  const int target = best_start<Throughput>(t, mine.length);
  if (target == mine.start) return decision;
  settle(mine, target);

  std::vector<int> order = swarm.by_id();
  std::erase_if(order, [&](int i) { return !servers[static_cast<std::size_t>(i)].counts(); });
  for (bool moved = true; moved; ++decision.sweeps) {
    moved = false;
    detail::Draws(seed, static_cast<std::uint32_t>(decision.sweeps)).shuffle(order);
    for (const int i : order) {
      SwarmServer& server = servers[static_cast<std::size_t>(i)];
      leave(server);
      moved |= settle(server, best_start<Throughput>(t, server.length));
    }
  }
  const Throughput then = slowest_block(t);
  decision.then = then / scale;
  if (then < now || then < least) return decision;
  // now / then < quality - 0.001, both sides in whole billionths: a product of two halves each.
  const auto quality = std::llround(balance_quality * 1e9) - 1'000'000;
  decision.move = quality > 0 && detail::ratio_below(decision.now, *decision.then, quality,
                                                     std::int64_t{1'000'000'000});
  return decision;
}

}  // namespace reef::inline v0::plan
