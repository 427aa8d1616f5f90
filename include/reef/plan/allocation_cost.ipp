#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/plan/allocation_cost.hpp>
#include <reef/plan/detail/arrangement.hpp>
#include <reef/plan/detail/link_weights.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE AllocationCost allocation_cost(const AllocationProblem& problem,
                                           const Placement& sigma) {
  problem.validate();
  const auto refuse = [](const auto&... what) {
    throw OptionError("reef::plan::allocation_cost: ", what...,
                      ".\n  fix: D_DP pipelines of D_PP devices, no device twice.");
  };
  const auto n = static_cast<std::size_t>(problem.network.devices);
  const auto pipelines = static_cast<std::size_t>(problem.pipelines);
  const auto stages = static_cast<std::size_t>(problem.stages);
  if (sigma.size() != pipelines) refuse("sigma has ", sigma.size(), " pipelines of ", pipelines);
  if (stages * pipelines > n) refuse(stages, " x ", pipelines, " devices of ", n);
  std::vector<int> at(stages * pipelines);
  std::vector<bool> used(n, false);
  for (std::size_t i = 0; i < pipelines; ++i) {
    if (sigma[i].size() != stages) refuse("pipeline ", i, " has ", sigma[i].size(), " stages");
    for (std::size_t j = 0; j < stages; ++j) {
      const int device = sigma[i][j];
      const auto d = static_cast<std::size_t>(device);
      if (device < 0 || d >= n) refuse("there is no device ", device);
      if (used[d]) refuse("device ", device, " is used twice");
      if (!problem.memories.empty() && problem.memories[d] < problem.stage_bytes) {
        refuse("device ", device, " has no room for a stage");
      }
      used[d] = true;
      at[j * pipelines + i] = device;
    }
  }
  return detail::cost_of(detail::link_weights(problem), problem.stages, problem.pipelines, at);
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
