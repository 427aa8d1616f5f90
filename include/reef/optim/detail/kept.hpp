#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/parameter_layout.hpp>
#include <reef/run/step_builder.hpp>

/// \file
/// What weights keep from step to step: the rule's states and master weights, by the names of their storages.

namespace reef::inline v0::optim::detail {

/// The numbers that a weight keeps: the rule's states, and a master weight where it needs one.
inline int kept_numbers(const run::StepPlan& plan, int states) {
  return states + (plan.keeps_master() ? 1 : 0);
}

/// "state.0", "state.1", ..., "master": the first `states` are the rule's.
inline std::string kept_name(int kept, int states) {
  return kept < states ? concat("state.", kept) : "master";
}

inline std::string storage_name(int kept, int states, std::size_t bucket) {
  return concat(kept_name(kept, states), " of weights ", bucket);
}
inline std::string piece_name(const std::string& storage, std::int64_t from) {
  return concat(storage, " from ", from);
}

/// The elements of a bucket that a rank keeps states of.
inline std::pair<std::int64_t, std::int64_t> kept_of(const run::StepPlan& plan, std::size_t b, int rank, bool sharded) {
  const run::Bucket& bucket = plan.buckets[b];
  if (!sharded) return {0, bucket.size()};
  return {bucket.shard_begin(rank), bucket.shard_begin(rank) + bucket.shard_size(rank)};
}

/// The weights of [begin, end) of a bucket that keep that number, as ranges: all of them; where parameters keep different
/// numbers of states, those that have it, each with the padding behind it.
inline std::vector<std::pair<std::int64_t, std::int64_t>> kept_pieces(const run::StepPlan& plan, std::size_t b, int kept,
                                                                      int states, std::int64_t begin,
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
    const std::int64_t from = std::max(at, begin);
    const std::int64_t to = std::min(at + graph::ParameterLayout::room(plan.dag->parameters[p]), end);
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

/// The storage of that name. Throws ScheduleError when there is none.
inline run::StorageId find(const schedule::Program& program, const std::string& name) {
  for (std::size_t id = 0; id < program.storages.size(); ++id) {
    if (program.storages[id].name == name) return static_cast<run::StorageId>(id);
  }
  throw ScheduleError("reef::optim: no storage '", name, "' was reserved.");
}

/// What the weights of a bucket keep: the rule's states, then master weights.
inline std::vector<run::Value> kept_values(const run::StepBuilder& builder, int states,
                                           std::size_t b) {
  std::vector<run::Value> values;
  for (int kept = 0; kept < kept_numbers(builder.plan, states); ++kept) {
    values.push_back({find(builder.program, storage_name(kept, states, b)), 0});
  }
  return values;
}

/// The parts of a view that are kept: the rule's states, and the master weights.
template <class View>
void set_kept(const View& view, const run::StepBuilder& builder, int states, std::size_t b) {
  const std::vector<run::Value> values = kept_values(builder, states, b);
  view.states.set(std::span(values).first(view.states.size()));
  view.master.set(std::span(values).subspan(view.states.size()));
}

}  // namespace reef::inline v0::optim::detail
