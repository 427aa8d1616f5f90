#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>

namespace reef::inline v0::plan {

/// Requests per second in whole millionths. Sums are exact, so servers that read the same announcements
/// compute the same, whatever their compilers do to floating-point numbers.
using Throughput = std::int64_t;

constexpr double throughput_units = 1e6;

/// The nearest whole number of millionths. Throws OptionError unless it is from 0 to 1e9 requests a second.
inline Throughput to_throughput(double per_second) {
  if (!within(per_second, 0, 1e9)) {
    throw OptionError("reef::plan: a throughput is ", per_second,
                      " requests per second.\n  fix: a number from 0 to 1e9.");
  }
  return std::llround(per_second * throughput_units);
}

inline double per_second(Throughput throughput) {
  return static_cast<double>(throughput) / throughput_units;
}

/// What a server announces of itself.
enum class ServerState : std::uint8_t {
  offline,  ///< it serves nothing, and does not count
  joining,  ///< it loads its blocks, and counts already
  online,
};

/// A server that holds the consecutive blocks [start, start + length) of a model.
struct SwarmServer {
  static constexpr int nowhere = -1;

  std::string id;
  int start = nowhere;  ///< its first block, or `nowhere`: it has come and holds none yet
  int length = 0;       ///< how many blocks it has room for
  Throughput throughput = 0;
  ServerState state = ServerState::online;
  int old_start =
      nowhere;  ///< while it loads: where it still serves, which it drops when it has loaded

  [[nodiscard]] bool counts() const { return state != ServerState::offline && start != nowhere; }
  [[nodiscard]] int end() const { return start + length; }

  friend bool operator==(const SwarmServer&, const SwarmServer&) = default;
};

/// The servers that announce blocks of one model: what all of them read, and plan from.
struct Swarm {
  static constexpr int most_blocks = 10'000;
  static constexpr int most_servers = 10'000;
  static constexpr Throughput most_throughput =
      9'000'000'000'000'000;  // a thousandth of it is exact

  int blocks = 0;
  std::vector<SwarmServer> servers;

  /// Its index, or -1.
  [[nodiscard]] int find(std::string_view id) const {
    const auto at = std::ranges::find(servers, id, &SwarmServer::id);
    return at == servers.end() ? -1 : static_cast<int>(at - servers.begin());
  }

  /// The indices in ascending order of ids, which is the same on all servers.
  [[nodiscard]] std::vector<int> by_id() const {
    std::vector<int> order(servers.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, std::less<>(), [this](int i) -> const std::string& {
      return servers[static_cast<std::size_t>(i)].id;
    });
    return order;
  }

  /// Throws OptionError, naming the server, unless sizes are from 1 to 10 000, ids differ, spans lie in
  /// the model, and throughputs are 0 or more and at most 9e9 requests a second together.
  void validate() const {
    if (blocks < 1 || blocks > most_blocks || servers.size() > std::size_t{most_servers}) {
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
      if (server.throughput < 0 || server.throughput > most_throughput - total)
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

  friend bool operator==(const Swarm&, const Swarm&) = default;
};

/// Adds to the blocks [start, start + length).
inline void add_to_blocks(std::vector<Throughput>& blocks, int start, int length, Throughput more) {
  for (int i = start; i < start + length; ++i) blocks[static_cast<std::size_t>(i)] += more;
}

///     t[i] = sum of the throughputs of all servers, joining or online, that hold block i
inline std::vector<Throughput> block_throughputs(const Swarm& swarm) {
  std::vector<Throughput> blocks(static_cast<std::size_t>(swarm.blocks));
  for (const SwarmServer& server : swarm.servers) {
    if (server.counts()) add_to_blocks(blocks, server.start, server.length, server.throughput);
  }
  return blocks;
}

/// What can be served now: as block_throughputs, of what servers have loaded. Who moves serves the old
/// blocks until it has loaded the new ones, and then both, each by half, until it drops the old ones.
inline std::vector<Throughput> online_throughputs(const Swarm& swarm) {
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

/// What goes through all blocks one after the other: the least of them.
inline Throughput slowest_block(const std::vector<Throughput>& blocks) {
  return *std::ranges::min_element(blocks);
}

/// No placement serves more: every server's throughput on all blocks that it has room for, spread evenly.
///
///     min_i t[i] <= sum_j throughput[j] * length[j] / blocks
///
/// Source: the linear relaxation of contiguous placement (Borzunov et al., Distributed Inference and
/// Fine-tuning of Large Language Models Over The Internet, arXiv 2312.08361, appendix E, names no bound
/// of its own).
inline Throughput throughput_bound(const Swarm& swarm) {
  Throughput whole = 0;  // sum / blocks in two parts: the sum of products may not be a number
  Throughput remainders = 0;
  for (const SwarmServer& server : swarm.servers) {
    if (server.state == ServerState::offline) continue;
    whole += server.throughput / swarm.blocks * server.length;
    remainders += server.throughput % swarm.blocks * server.length;
  }
  return whole + remainders / swarm.blocks;
}

}  // namespace reef::inline v0::plan
