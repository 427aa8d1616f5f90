#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/optim/detail/kept.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

REEF_INLINE std::pair<std::int64_t, std::int64_t> kept_of(const run::StepPlan& plan, std::size_t b, int rank,
                                                          bool sharded) {
  const run::Bucket& bucket = plan.buckets[b];
  if (!sharded) return {0, bucket.size()};
  return {bucket.shard_begin(rank), bucket.shard_begin(rank) + bucket.shard_size(rank)};
}

REEF_INLINE std::vector<std::pair<std::int64_t, std::int64_t>> kept_pieces(const run::StepPlan& plan, std::size_t b,
                                                                           int kept, int states, std::int64_t begin,
                                                                           std::int64_t end) {
  if (plan.states_of_parameter.empty() || kept == states) return {{begin, end}};
  bool all = true;
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    if (plan.bucket_of_parameter[p] != static_cast<int>(b)) continue;
    if (kept >= plan.states_of_parameter[p]) {
      all = false;
      continue;
    }
    const std::int64_t at = plan.layout.parameters[p] - plan.buckets[b].begin;
    const std::int64_t from = (std::max)(at, begin);
    const std::int64_t to =
        (std::min)(at + graph::ParameterLayout::room(plan.dag->parameters[p]), end);
    if (from >= to) continue;
    if (!pieces.empty() && pieces.back().second == from) {
      pieces.back().second = to;
    } else {
      pieces.emplace_back(from, to);
    }
  }
  if (all) return {{begin, end}};
  return pieces;
}

REEF_INLINE run::StorageId find(const schedule::Program& program, const std::string& name) {
  for (std::size_t id = 0; id < program.storages.size(); ++id) {
    if (program.storages[id].name == name) return static_cast<run::StorageId>(id);
  }
  throw ScheduleError("reef::optim: no storage '", name, "' was reserved.");
}

REEF_INLINE std::vector<run::Value> kept_values(const run::StepBuilder& builder, int states,
                                                std::size_t b) {
  std::vector<run::Value> values;
  for (int kept = 0; kept < kept_numbers(builder.plan, states); ++kept) {
    values.push_back({find(builder.program, storage_name(kept, states, b)), 0});
  }
  return values;
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
