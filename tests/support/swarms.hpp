#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>

#include <reef/plan/swarm.hpp>

namespace reef::test {

/// Servers s0, s1, ... with room for a third of the blocks at most, anywhere; whole throughputs, so that
/// sums of doubles are exact.
inline plan::Swarm random_swarm(std::mt19937_64& random, int blocks, int servers) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  plan::Swarm swarm;
  swarm.blocks = blocks;
  for (int i = 0; i < servers; ++i) {
    plan::SwarmServer server;
    server.id = "s" + std::to_string(i);
    server.length = draw(1, std::max(1, (blocks + 1) / 3 + 1));
    server.start = draw(0, blocks - server.length);
    server.throughput = plan::to_throughput(draw(1, 100));
    swarm.servers.push_back(server);
  }
  return swarm;
}

}  // namespace reef::test
