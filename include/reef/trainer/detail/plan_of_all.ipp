#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/topology.hpp>
#include <reef/trainer/detail/plan_of_all.hpp>
#include <reef/trainer/detail/planning.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

REEF_INLINE std::vector<int> counts_of_all(const Policies& policies, comm::Progress& progress,
                                           const TrainerSettings& settings) {
  std::vector<int> counts = settings.counts();
  if (settings.virtual_ranks > 1) return counts;
  const std::vector<int> all = comm::gather_numbers(progress, "micro-batches", counts.front());
  const run::Topology topology = topology_of(policies, settings, progress.size());
  counts.clear();
  for (int replica = 0; replica < topology.replicas; ++replica) {
    counts.push_back(all[static_cast<std::size_t>(topology.rank(replica, 0))]);
    for (const int member : topology.pipeline(replica).members) {
      const int count = all[static_cast<std::size_t>(member)];
      if (count == counts.back()) continue;
      throw OptionError("reef::Trainer: rank ", topology.rank(replica, 0), " has micro_batches ",
                        counts.back(), ", rank ", member, " of the same replica ", count,
                        ".\n  fix: one count for all stages of a replica.");
    }
  }
  return counts;
}

REEF_INLINE AgreedDevice agreed_device(comm::Progress& progress, const AgreedDevice& own) {
  const auto least = [&](const char* what, auto mine) {
    decltype(mine) result = 0;
    for (const auto value : comm::gather_numbers(progress, what, mine)) {
      if (value > 0) result = result > 0 ? (std::min)(result, value) : value;
    }
    return result;
  };
  const auto most = [&](const char* what, double mine) {
    const auto all = comm::gather_numbers(progress, what, mine);
    return *std::max_element(all.begin(), all.end());
  };
  AgreedDevice agreed;
  agreed.memory_bytes = static_cast<Bytes>(least("device memory", static_cast<std::int64_t>(own.memory_bytes)));
  agreed.link_bytes_per_second = least("link of the device", own.link_bytes_per_second);
  agreed.link_latency = most("latency of the link", own.link_latency);
  agreed.slowdown = most("slowdown of the device", own.slowdown);
  if (own.threads > 0) {
    const auto threads = comm::gather_numbers(progress, "threads of the device", own.threads);
    agreed.threads = *std::max_element(threads.begin(), threads.end());
  }
  agreed.checks_memory = most("checks of memory", own.checks_memory ? 1 : 0) > 0;
  return agreed;
}

}  // namespace detail
}  // namespace v0
}  // namespace reef
