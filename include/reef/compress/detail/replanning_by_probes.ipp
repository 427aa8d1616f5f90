#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include <reef/compress/detail/replanning.hpp>
#include <reef/compress/detail/replanning_by_probes.hpp>
#include <reef/core/inline.hpp>
#include <reef/graph/remote_edges.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

REEF_INLINE schedule::World probed_world(comm::Progress& progress, const run::StepPlan& plan,
                                         const comm::ProbeOptions& options) {
  std::set<std::pair<int, int>> all;
  for (const graph::RemoteEdge& edge : plan.remote_edges) {
    const int from = plan.stage_of_segment[static_cast<std::size_t>(edge.from)];
    const int to = plan.stage_of_segment[static_cast<std::size_t>(edge.to)];
    for (int replica = 0; replica < plan.topology.replicas; ++replica) {
      all.emplace(plan.topology.rank(replica, from), plan.topology.rank(replica, to));
    }
  }
  const std::vector<std::pair<int, int>> links(all.begin(), all.end());
  const std::vector<comm::ProbedLink> found = comm::probe_links(progress, links, options);
  schedule::World world = schedule::World::uniform(plan.ranks(), {}, {});
  for (std::size_t l = 0; l < links.size(); ++l) {
    const auto [from, to] = links[l];
    world.links[static_cast<std::size_t>(from) * world.machines.size() + static_cast<std::size_t>(to)] = {
        found[l].latency, found[l].bytes_per_second};
  }
  return world;
}

REEF_INLINE void replan(comm::Progress& progress, const run::StepPlan& plan, const Replan& options,
                   const schedule::World* network, run::StepState& state,
                   const std::function<std::vector<double>(const schedule::World&)>& plan_of) {
  run::EdgeRatios& now = state.ratios;
  const auto tell = [&] {
    if (options.told) options.told(now);
  };
  if (!options.replay.empty()) {
    const run::EdgeRatios* in_force = nullptr;
    for (const run::EdgeRatios& ratios : options.replay) {
      if (ratios.step <= state.committed) in_force = &ratios;
    }
    if (in_force == nullptr || (in_force->step == now.step && in_force->by_edge == now.by_edge)) return;
    now = *in_force;
    tell();
    return;
  }
  const bool first = !are_possible(plan, now);
  if (!first && state.committed - now.step < options.every) return;
  std::vector<double> planned =
      plan_of(first && network != nullptr ? *network : probed_world(progress, plan, options.probe));
  for (double& ratio : planned) ratio = (std::min)(ratio, max_ratio);
  const auto differs = [&](double before, double behind) {
    return (std::abs)(behind - before) > options.tolerance * before;
  };
  now.step = state.committed;
  if (!first && std::equal(planned.begin(), planned.end(), now.by_edge.begin(), std::not_fn(differs))) return;
  now.by_edge = planned;
  tell();
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
