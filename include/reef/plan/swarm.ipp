#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/detail/swarm_bound.hpp>
#include <reef/plan/swarm.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE Throughput to_throughput(double per_second) {
  if (!within(per_second, 0, 1e9)) {
    throw OptionError("reef::plan: a throughput is ", per_second,
                      " requests per second.\n  fix: a number from 0 to 1e9.");
  }
  return std::llround(per_second * throughput_units);
}

REEF_INLINE int Swarm::find(std::string_view id) const {
  const auto at = std::ranges::find(servers, id, &SwarmServer::id);
  return at == servers.end() ? -1 : static_cast<int>(at - servers.begin());
}

REEF_INLINE std::vector<int> Swarm::by_id() const {
  std::vector<int> order(servers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::less<>(), [this](int i) -> const std::string& {
    return servers[static_cast<std::size_t>(i)].id;
  });
  return order;
}

REEF_INLINE void Swarm::validate() const {
  if (blocks < 1 || blocks > max_blocks || servers.size() > std::size_t{max_servers}) {
    throw OptionError("reef::plan::Swarm: ", blocks, " blocks and ", servers.size(),
                      " servers.\n  fix: from 1 to 10000 blocks, and at most 10000 servers.");
  }
  Throughput total = 0;
  for (const SwarmServer& server : servers) {
    const auto refuse = [&](std::string_view why, std::string_view fix) {
      throw OptionError("reef::plan::Swarm: server '", server.id, "' ", why, ".\n  fix: ", fix);
    };
    const auto lies = [&](int start) {
      return start == SwarmServer::nowhere || (start >= 0 && start <= blocks - server.length);
    };
    if (server.length < 1 || server.length > blocks)
      refuse("has room for no block, or for more than there are", "from 1 block to all.");
    if (!lies(server.start) || !lies(server.old_start))
      refuse("holds blocks that the model does not have", "a span inside the model.");
    if (server.throughput < 0 || server.throughput > max_throughput - total)
      refuse("has a throughput below 0, or with the others one above 9e9 requests a second",
             "what it serves in a second.");
    total += server.throughput;
  }
  const std::vector<int> order = by_id();
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::string& id = servers[static_cast<std::size_t>(order[i])].id;
    if (id != servers[static_cast<std::size_t>(order[i - 1])].id) continue;
    throw OptionError("reef::plan::Swarm: two servers are called '", id,
                      "'.\n  fix: one entry for each server.");
  }
}

REEF_INLINE std::vector<Throughput> block_throughputs(const Swarm& swarm) {
  std::vector<Throughput> blocks(static_cast<std::size_t>(swarm.blocks));
  for (const SwarmServer& server : swarm.servers) {
    if (server.counts()) add_to_blocks(blocks, server.start, server.length, server.throughput);
  }
  return blocks;
}

REEF_INLINE std::vector<Throughput> online_throughputs(const Swarm& swarm) {
  std::vector<Throughput> blocks(static_cast<std::size_t>(swarm.blocks));
  for (const SwarmServer& server : swarm.servers) {
    if (server.state == ServerState::offline) continue;
    const bool has_new =
        server.state == ServerState::online && server.start != SwarmServer::nowhere;
    const bool has_old = server.old_start != SwarmServer::nowhere;
    const Throughput each = has_new && has_old ? server.throughput / 2 : server.throughput;
    if (has_new) add_to_blocks(blocks, server.start, server.length, each);
    if (has_old) add_to_blocks(blocks, server.old_start, server.length, each);
  }
  return blocks;
}

REEF_INLINE Throughput throughput_bound(const Swarm& swarm) {
  std::map<int, Throughput> supply;
  for (const SwarmServer& server : swarm.servers) {
    if (server.state != ServerState::offline && server.throughput > 0) supply[server.length] += server.throughput;
  }
  return detail::SwarmBound(swarm.blocks, {supply.begin(), supply.end()}).find();
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
