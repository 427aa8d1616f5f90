#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/comm/link_probe.hpp>
#include <reef/comm/progress.hpp>
#include <reef/compress/detail/adapted_ratios.hpp>
#include <reef/compress/detail/replanning.hpp>
#include <reef/compress/ratio_ramp.hpp>
#include <reef/compress/replan.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/world.hpp>

namespace reef::inline v0::compress::detail {

REEF_INLINE schedule::World probed_world(comm::Progress& progress, const run::StepPlan& plan, const comm::ProbeOptions& options) {
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

REEF_INLINE bool are_possible(const run::StepPlan& plan, const run::EdgeRatios& ratios) {
  return ratios.step >= 0 && ratios.by_edge.size() == plan.remote_edges.size() &&
         std::all_of(ratios.by_edge.begin(), ratios.by_edge.end(), [&](double ratio) {
           return ratio == 0 || ratio == 1 || within(ratio, least_ratio(plan), most_ratio);
         });
}

REEF_INLINE void require_possible(const run::StepPlan& plan, const Replan& replan) {
  replan.validate();
  for (const run::EdgeRatios& ratios : replan.replay) {
    if (are_possible(plan, ratios)) continue;
    throw OptionError("reef::compress::Replan: the ratios of step ", ratios.step, " are none of this plan, whose ",
                      plan.remote_edges.size(), " edges between stages have ratios of 0, 1, or ", least_ratio(plan), " to ",
                      most_ratio, ".\n  fix: those that a run of the same model, cuts and topology was told.");
  }
}

REEF_INLINE run::EdgeRatios chosen_ratios(const run::StepPlan& plan, const Replan& options, std::int64_t step) {
  run::EdgeRatios ratios{step, std::vector<double>(plan.remote_edges.size(), 0)};
  using schedule::Traffic;
  for (const Traffic traffic : {Traffic::activation, Traffic::activation_gradient}) {
    for (const Carried& carried : carried_by(plan, traffic)) {
      ratios.by_edge[static_cast<std::size_t>(carried.index)] = options.choose(carried, step).value_or(0);
    }
  }
  if (are_possible(plan, ratios)) return ratios;
  throw OptionError("reef::compress::Replan: a ratio that was chosen for step ", step + 1, " is not 1, nor from ", least_ratio(plan),
                    " on.\n  state: nothing of that step has run.\n  fix: one of those, or nothing for the codec's own.");
}

REEF_INLINE void replan(comm::Progress& progress, const run::StepPlan& plan, const Replan& options,
                   const schedule::World* network, run::StepState& state,
                   const std::function<std::vector<double>(const schedule::World&)>& plan_of) {
  run::EdgeRatios& now = state.ratios;
  const auto tell = [&] {
    if (options.told) options.told(now);
  };
  if (options.choose) {
    now = chosen_ratios(plan, options, state.committed);
    return;
  }
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
  std::vector<double> planned = plan_of(first && network != nullptr ? *network : probed_world(progress, plan, options.probe));
  for (double& ratio : planned) ratio = std::min(ratio, most_ratio);
  const auto differs = [&](double before, double behind) {
    return std::abs(behind - before) > options.tolerance * before;
  };
  now.step = state.committed;
  if (!first && std::equal(planned.begin(), planned.end(), now.by_edge.begin(), std::not_fn(differs))) return;
  now.by_edge = planned;
  tell();
}

}  // namespace reef::inline v0::compress::detail
