#pragma once

#include <algorithm>

#include <reef/core/inline.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

REEF_INLINE bool copies(const Instruction& instruction) {
  return instruction.lane == Lane::load || instruction.lane == Lane::evict ||
         instruction.cost.copies > 0;
}

REEF_INLINE Seconds duration_of(const Instruction& instruction, const Machine& machine) {
  using detail::over;
  const Cost& cost = instruction.cost;
  if (cost.seconds >= 0) return cost.seconds;
  const auto bytes = static_cast<double>(cost.bytes);
  if (copies(instruction)) {
    return (std::max)(cost.copies, 1) * machine.copy_latency +
           over(bytes, machine.copy_bytes_per_second);
  }
  return (std::max)(over(cost.flops, machine.flops_per_second),
                    over(bytes, machine.memory_bytes_per_second));
}

REEF_INLINE World World::uniform(int ranks, Machine machine, Link link) {
  const auto count = static_cast<std::size_t>(ranks);
  return {std::vector<Machine>(count, machine), std::vector<Link>(count * count, link)};
}

REEF_INLINE World World::of(const profile::Network& network) {
  network.validate();
  World world = uniform(network.devices, {}, {});
  for (int from = 0; from < network.devices; ++from) {
    const auto rank = static_cast<std::size_t>(from);
    for (int to = 0; to < network.devices; ++to) {
      if (from == to) continue;
      world.links[rank * world.machines.size() + static_cast<std::size_t>(to)] = {network.latency(from, to),
                                                                                  network.rate(from, to)};
    }
    if (!network.has_uplinks()) continue;
    world.machines[rank].uplink_bytes_per_second = network.uplink(from);
    world.machines[rank].downlink_bytes_per_second = network.downlink(from);
  }
  return world;
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
