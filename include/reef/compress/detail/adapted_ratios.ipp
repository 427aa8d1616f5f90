#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include <reef/compress/detail/adapted_ratios.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/adatopk.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

REEF_INLINE std::vector<double> adapted_ratios(const run::StepPlan& plan, const schedule::World& network,
                                          schedule::Traffic traffic, double ratio, Seconds compute) {
  if (network.machines.size() != static_cast<std::size_t>(plan.ranks())) {
    throw OptionError("reef::compress: ratios are to follow a network of ", network.machines.size(),
                      " ranks, but there are ", plan.ranks(),
                      ".\n  fix: the links between all ranks, as "
                      "profile::Network::uniform has them.");
  }
  const bool back = traffic == schedule::Traffic::activation_gradient;
  const auto stages_of = [&](const graph::RemoteEdge& edge) {
    return std::pair{plan.stage_of_segment[static_cast<std::size_t>(edge.from)],
                     plan.stage_of_segment[static_cast<std::size_t>(edge.to)]};
  };
  std::map<std::pair<int, int>, Bytes> bytes;
  for (const graph::RemoteEdge& edge : plan.remote_edges) {
    if (edge.gradient == back) bytes[stages_of(edge)] += plan.dag->tensor_at(edge.tensor).spec.bytes();
  }
  std::vector<plan::AdaTopKLink> links;
  std::map<std::pair<int, int>, std::size_t> place;
  for (const auto& [stages, sent] : bytes) {
    plan::AdaTopKLink slowest;
    for (int replica = 0; replica < plan.topology.replicas; ++replica) {
      const schedule::Link& link =
          network.link(plan.topology.rank(replica, stages.first), plan.topology.rank(replica, stages.second));
      const double rate = link.bytes_per_second;
      const plan::AdaTopKLink own{link.latency, rate > 0 ? static_cast<double>(sent) / rate : 0};
      if (own.time() > slowest.time()) slowest = own;
    }
    place[stages] = links.size();
    links.push_back(slowest);
  }
  std::vector<double> ratios(plan.remote_edges.size(), 0);
  if (links.empty()) return ratios;
  const std::vector<double> of_links =
      plan::adatopk(links, {.ratio = ratio, .index_bytes = index_bytes_of(plan), .compute = compute}).ratios;
  for (std::size_t e = 0; e < ratios.size(); ++e) {
    if (plan.remote_edges[e].gradient == back) ratios[e] = of_links[place.at(stages_of(plan.remote_edges[e]))];
  }
  return ratios;
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
