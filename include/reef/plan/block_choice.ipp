#pragma once

#include <cmath>
#include <utility>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/block_choice.hpp>
#include <reef/plan/detail/draws.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE std::vector<int> join_in_turn(const Swarm& swarm) {
  swarm.validate();
  std::vector<Throughput> t(static_cast<std::size_t>(swarm.blocks));
  std::vector<int> starts;
  for (const SwarmServer& server : swarm.servers) {
    starts.push_back(best_start<Throughput>(t, server.length));
    add_to_blocks(t, starts.back(), server.length, server.throughput);
  }
  return starts;
}

REEF_INLINE double advertised_throughput(const ServerSpeed& speed) {
  const double network = speed.network_rps.value_or(0);
  const bool numbers = within(speed.forward_rps, 0, 1e15) && within(network, 0, 1e15);
  if (!numbers || speed.blocks < 1) {
    throw OptionError("reef::plan::advertised_throughput: forward_rps is ", speed.forward_rps,
                      ", network_rps ", network, ", blocks ", speed.blocks,
                      ".\n  fix: rates from 0 to 1e15, and a block at least.");
  }
  const double compute = speed.forward_rps / ((static_cast<double>(speed.blocks) + 1) / 2);
  if (!speed.network_rps) return compute;
  return (std::min)(compute, network * (speed.relay ? 0.2 : 1.0));
}

REEF_INLINE MoveDecision should_move(const Swarm& swarm, std::string_view me,
                                     double balance_quality, std::uint64_t seed, bool guard) {
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

}  // namespace plan
}  // namespace v0
}  // namespace reef
