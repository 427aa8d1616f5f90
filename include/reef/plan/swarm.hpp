#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// A throughput in whole millionths of a request per second. Sums are exact, so servers that read the same
/// announcements compute the same results, however their compilers treat floating-point numbers.
using Throughput = std::int64_t;

constexpr double throughput_units = 1e6;

/// Returns a rate in requests per second as the nearest whole number of millionths. Throws OptionError unless the rate
/// is from 0 to 1e9.
Throughput to_throughput(double per_second);

inline double per_second(Throughput throughput) {
  return static_cast<double>(throughput) / throughput_units;
}

/// The state that a server of a swarm announces.
enum class ServerState : std::uint8_t {
  offline,  ///< the server serves no blocks, and does not count
  joining,  ///< the server loads its blocks, and counts already
  online,
};

/// A server that holds the consecutive blocks [start, start + length) of a model.
struct SwarmServer {
  static constexpr int nowhere = -1;

  std::string id;
  int start = nowhere;  ///< the server's first block, or `nowhere`: it has joined and holds none yet
  int length = 0;       ///< the number of blocks that the server has room for
  Throughput throughput = 0;
  ServerState state = ServerState::online;
  int old_start =
      nowhere;  ///< while the server loads: the first of the old blocks, which it serves until it has loaded

  [[nodiscard]] bool counts() const { return state != ServerState::offline && start != nowhere; }
  [[nodiscard]] int end() const { return start + length; }

  friend bool operator==(const SwarmServer&, const SwarmServer&) = default;
};

/// A swarm: the servers that announce blocks of one model. All servers read it, and plan from it.
///
/// \code
/// plan::Swarm swarm;
/// swarm.blocks = 80;
/// const plan::Throughput rate = plan::to_throughput(150);
/// swarm.servers.push_back({.id = "A", .start = 0, .length = 80, .throughput = rate});
/// const auto served = plan::slowest_block(plan::block_throughputs(swarm));
/// \endcode
struct Swarm {
  static constexpr int max_blocks = 10'000;
  static constexpr int max_servers = 10'000;
  static constexpr Throughput max_throughput =
      9'000'000'000'000'000;  // a thousand times this number still fits into 64 bits

  int blocks = 0;
  std::vector<SwarmServer> servers;

  /// Returns the index of the server with this id, or -1 if there is none.
  [[nodiscard]] int find(std::string_view id) const;

  /// Returns the indices of servers in ascending order of ids, which is the same on all servers.
  [[nodiscard]] std::vector<int> by_id() const;

  /// Throws OptionError, naming the server, unless there are 1 to 10 000 blocks and at most 10 000 servers, ids differ,
  /// spans are inside the model, and throughputs are 0 or more and at most 9e9 requests a second together.
  void validate() const;

  friend bool operator==(const Swarm&, const Swarm&) = default;
};

/// Adds a throughput to each of the blocks [start, start + length) of the model.
inline void add_to_blocks(std::vector<Throughput>& blocks, int start, int length, Throughput more) {
  for (int i = start; i < start + length; ++i) blocks[static_cast<std::size_t>(i)] += more;
}

/// Returns the throughput of each block of the model:
///
///     t[i] = sum of the throughputs of all servers, joining or online, that hold block i
std::vector<Throughput> block_throughputs(const Swarm& swarm);

/// Returns the throughput at which each block of the model can be served now: as block_throughputs(), but without
/// blocks that are still being loaded. A server that moves serves the old blocks until it has loaded the new ones, and
/// then both, each with half its throughput, until it drops the old ones.
std::vector<Throughput> online_throughputs(const Swarm& swarm);

/// Returns the throughput of requests that go through all blocks of the model: the least of the blocks' throughputs.
inline Throughput slowest_block(const std::vector<Throughput>& blocks) {
  return *std::ranges::min_element(blocks);
}

/// Returns an upper bound of the throughput of all placements of blocks on servers: the throughput if each server could
/// divide its own among several spans of its length (the linear relaxation of contiguous placement), rounded down.
///
///     min_i t[i] <= throughput_bound <= sum_j throughput[j] * length[j] / blocks
///
/// The bound is less than the sum if spans cannot cover the blocks evenly: servers with room for 24 of 70 blocks serve
/// a third of their throughput at best, not 24 / 70 of it.
/// detail/swarm_bound.hpp has the proof.
///
/// | numbers | integers, and exact: the bound does not depend on how a machine rounds                             |
/// | cost    | some hundred times O(blocks * number of different lengths); beyond 2e8 operations the search stops |
/// |         | with a bound that may be greater than the relaxation's                                             |
///
/// Source: Borzunov et al., Distributed Inference and Fine-tuning of Large Language Models Over The Internet, arXiv
/// 2312.08361, appendix E, which compares with a bound that it does not define.
Throughput throughput_bound(const Swarm& swarm);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/swarm.ipp>
#endif
