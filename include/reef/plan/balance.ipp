#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/balance.hpp>
#include <reef/plan/detail/swarm_placement.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE const BalanceMove* BalancePlan::find(std::string_view id) const& {
  const auto at = std::ranges::find(moves, id, &BalanceMove::id);
  return at == moves.end() ? nullptr : &*at;
}

REEF_INLINE std::uint64_t version_of(const Swarm& swarm) {
  Hash hash;
  hash.add(swarm.blocks);
  for (const int i : swarm.by_id()) {
    const SwarmServer& server = swarm.servers[static_cast<std::size_t>(i)];
    hash.add(std::string_view(server.id)).add(server.start).add(server.length);
    hash.add(server.throughput).add(server.state).add(server.old_start);
  }
  return hash.value();
}

REEF_INLINE bool may_move(const SwarmServer& server) {
  if (server.state == ServerState::offline) return false;
  return server.start == SwarmServer::nowhere ||
         (server.state == ServerState::online && server.old_start == SwarmServer::nowhere);
}

namespace detail {

/// All servers in a row, in the order of their ids, until each block has one: what can be done
/// wherever rooms suffice.
inline void cover(const Swarm& swarm, const std::vector<int>& order, SwarmPlacement& placement) {
  int held = 0;
  for (const int i : order) {
    const SwarmServer& server = swarm.servers[static_cast<std::size_t>(i)];
    if (held >= swarm.blocks) return;
    if (server.throughput == 0) continue;
    placement.relocate(swarm, i, (std::min)(held, swarm.blocks - server.length));
    held += server.length;
  }
}

}  // namespace detail

REEF_INLINE BalancePlan balance(const Swarm& swarm, const BalanceOptions& options) {
  swarm.validate();
  constexpr std::int64_t whole = 1'000'000;
  if (options.price_ppm < 0 || options.price_ppm > 1000 * whole || options.targets < 1 ||
      options.beam < 1 || options.moves < 1 ||
      (std::max)({options.targets, options.beam, options.moves}) > 1000) {
    throw OptionError("reef::plan::balance: price ", options.price_ppm, " ppm, ", options.targets,
                      " targets, a beam of ", options.beam, ", ", options.moves,
                      " moves.\n  fix: a price from 0 to 1e9, the others from 1 to 1000.");
  }
  BalancePlan plan;
  plan.version = version_of(swarm);
  plan.bound = throughput_bound(swarm);
  detail::SwarmPlacement first;
  first.t = block_throughputs(swarm);
  plan.now = plan.then = slowest_block(first.t);
  std::vector<int> order = swarm.by_id();
  std::erase_if(order,
                [&](int i) { return !may_move(swarm.servers[static_cast<std::size_t>(i)]); });
  for (const SwarmServer& server : swarm.servers) first.starts.push_back(server.start);

  std::vector<int> newcomers = order;
  std::erase_if(newcomers, [&](int i) {
    return first.starts[static_cast<std::size_t>(i)] != SwarmServer::nowhere;
  });
  std::ranges::stable_sort(newcomers, std::greater<>(), [&](int i) {
    const SwarmServer& server = swarm.servers[static_cast<std::size_t>(i)];
    return server.throughput / swarm.blocks * server.length;
  });
  std::vector<std::int64_t> gains;
  const detail::Shortfall of_all(std::max<Throughput>(plan.bound, 1));
  for (const int i : newcomers) {
    const SwarmServer& server = swarm.servers[static_cast<std::size_t>(i)];
    first.relocate(swarm, i, detail::least_shortfall(first.t, server, of_all, gains).second);
  }

  detail::PlacementEffort effort{0, options.beam, options.moves};
  if (!order.empty()) {
    const auto servers = static_cast<std::int64_t>(swarm.servers.size());
    effort.price_ppm =
        (std::min)((2 * options.price_ppm + servers) / (2 * servers), whole - 1);  // rounded
  }
  detail::SwarmPlacement best = first;
  const Throughput now = slowest_block(first.t);
  if (now == 0) search_placements(swarm, order, first, 1, effort, best);
  for (int target = 1; target <= options.targets; ++target) {
    const Throughput aim = now + (plan.bound - now) / options.targets * target;
    if (aim > now) search_placements(swarm, order, first, aim, effort, best);
  }
  if (plan.bound > 0 && slowest_block(best.t) == 0) {
    detail::SwarmPlacement row = first;
    detail::cover(swarm, order, row);
    if (slowest_block(row.t) > 0) {
      best = row;
      search_placements(swarm, order, row, plan.bound, effort, best);
    }
  }
  for (const int i : order) {
    const SwarmServer& server = swarm.servers[static_cast<std::size_t>(i)];
    const int start = best.starts[static_cast<std::size_t>(i)];
    if (start != server.start) plan.moves.push_back({server.id, server.start, start});
  }
  plan.then = slowest_block(best.t);
  return plan;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
