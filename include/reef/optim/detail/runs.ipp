#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/optim/detail/runs.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

REEF_INLINE std::vector<Run> runs_of(const run::StepPlan& plan, int b, std::int64_t begin,
                                     std::int64_t n) {
  const run::Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
  std::vector<Run> runs;
  const auto& states = plan.states_of_parameter;
  std::vector<std::int64_t> kept(
      states.empty() ? 0 : static_cast<std::size_t>(*std::max_element(states.begin(), states.end())));
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    if (plan.bucket_of_parameter[p] != b) continue;
    const graph::Parameter& parameter = plan.dag->parameters[p];
    const std::int64_t at = plan.layout.parameters[p] - bucket.begin;
    const std::int64_t from = (std::max)(at, begin);
    const std::int64_t to = (std::min)(at + parameter.spec.shape.size(), begin + n);
    const auto matrix = plan.matrices.of(p);
    if (from < to) {
      if (matrix && to - from < parameter.spec.shape.size()) {
        throw ScheduleError("reef::optim: an update of elements ", begin, " to ", begin + n, " of bucket ", b,
                            " has a part of '", parameter.name,
                            "'.\n  why: the rule takes it as a whole matrix.\n"
                            "  fix: shards of run::whole_shard_offsets.");
      }
      const run::ParameterGroup* const group = plan.group_of(p);
      const bool decays = parameter.decay || (group != nullptr && group->weight_decay);
      runs.push_back({decays, from - begin, to - from, kept, plan.rule_of(p),
                      group == nullptr ? 1 : group->learning_rate,
                      group == nullptr ? std::nullopt : group->weight_decay, matrix});
    }
    const std::int64_t end = (std::min)(at + graph::ParameterLayout::room(parameter), begin + n);
    if (states.empty() || from >= end) continue;
    for (int k = 0; k < states[p]; ++k) kept[static_cast<std::size_t>(k)] += end - from;
  }
  return runs;
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
