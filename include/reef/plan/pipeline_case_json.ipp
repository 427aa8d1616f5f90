#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/number_json.hpp>
#include <reef/plan/pipeline_case_json.hpp>
#include <reef/plan/pipeline_schedules.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

namespace detail {

inline constexpr double longest_case_time = 1e12;

inline std::string_view placement_of(std::string_view schedule) {
  for (const std::string_view name : {"zb-v", "v-half", "v-min", "dualpipe-v"}) {
    if (schedule == name) return "v";
  }
  for (const std::string_view name : {"interleaved", "looped-bfs", "interleaved-zb"}) {
    if (schedule == name) return "loop";
  }
  return "linear";
}

/// The links of a case: each tensor has as many bytes as it occupies its link for.
inline void read_links(PipelineCase& result, const io::Json& json, std::string_view source) {
  const int p = result.ranks;
  const auto pairs = static_cast<std::size_t>(p) * static_cast<std::size_t>(p);
  result.wires.assign(pairs, 0);
  result.times.world = schedule::World::uniform(p, {}, {});
  const auto links = io::value_or<io::Json>(json, "links", io::Json::array(), source);
  if (!links.is_array()) {
    throw DecodeError("reef::plan: ", source,
                      ": 'links' is no list.\n  fix: [{\"from\": 0, \"to\": 1, "
                      "\"wire_us\": 2, \"latency_us\": 9}].");
  }
  std::vector<bool> given(pairs, false);
  for (std::size_t l = 0; l < links.size(); ++l) {
    const std::string at = concat("links.", l);
    io::require_known_keys(links[l],
                           std::array<std::string_view, 4>{"from", "to", "wire_us", "latency_us"},
                           source, at);
    const int from = count_from_json(json, at + ".from", 0, p - 1, source);
    const int to = count_from_json(json, at + ".to", 0, p - 1, source);
    const double wire = number_from_json(json, at + ".wire_us", 0, longest_case_time, source);
    const double latency = number_from_json(json, at + ".latency_us", 0, longest_case_time, source);
    const auto pair =
        static_cast<std::size_t>(from) * static_cast<std::size_t>(p) + static_cast<std::size_t>(to);
    if (from == to || given[pair]) {
      throw DecodeError("reef::plan: ", source, ": '", at, "' is ",
                        given[pair] ? "a second link " : "a link ", "from rank ", from, " to rank ",
                        to, ".\n  fix: one for each ordered pair.");
    }
    given[pair] = true;
    result.wires[pair] = wire;
    const bool is_whole = wire == std::floor(wire);
    result.times.world.links[pair] = {latency, wire > 0 ? (is_whole ? 1 : 1048576 / wire) : 0};
  }
}

}  // namespace detail

REEF_INLINE PipelineOrder PipelineCase::order() const {
  if (!warm_up.empty() && chunks_per_rank == 1)
    return one_f_one_b_order(ranks, micro_batches, warm_up);
  return pipeline_order_of(schedule, ranks, micro_batches, chunks_per_rank, group);
}

REEF_INLINE std::vector<int> PipelineCase::rank_of_chunk() const {
  std::vector<int> result;
  for (int c = 0; c < ranks * chunks_per_rank; ++c) {
    result.push_back(folds && c >= ranks ? 2 * ranks - 1 - c : c % ranks);
  }
  return result;
}

REEF_INLINE PipelineModel PipelineCase::model(PipelineOrder order) const {
  PipelineModel model{std::move(order), times};
  for (const bool back : {false, true}) {
    for (int c = 1; c < model.order.chunks(); ++c) {
      PipelineEdge edge{c - 1, c, 1};
      if (back) std::swap(edge.from, edge.to);
      const auto rank = [&](int chunk) {
        return static_cast<std::size_t>(model.order.rank_of_chunk[static_cast<std::size_t>(chunk)]);
      };
      const double wire = wires[rank(edge.from) * static_cast<std::size_t>(ranks) + rank(edge.to)];
      if (wire > 0) edge.bytes = wire == std::floor(wire) ? static_cast<Bytes>(wire) : 1048576;
      (back ? model.backward : model.forward).push_back(edge);
    }
  }
  return model;
}

REEF_INLINE PipelineCase pipeline_case_from_json(const io::Json& json, std::string_view source) {
  constexpr std::array<std::string_view, 13> known{
      "p",   "m",     "v",       "placement", "schedule",        "t_f",  "t_b",
      "t_w", "links", "warm_up", "group",     "max_activations", "split"};
  io::require_known_keys(json, known, source);
  PipelineCase result;
  result.ranks = count_from_json(json, "p", 1, max_case_ranks, source);
  result.micro_batches = count_from_json(json, "m", 1, max_pipeline_tasks, source);
  if (json.contains("v")) {
    result.chunks_per_rank = count_from_json(json, "v", 1, max_case_ranks, source);
  }
  result.schedule = io::value_or<std::string>(json, "schedule", "", source);
  const bool is_known = find_pipeline_schedule(result.schedule) != nullptr;
  if (json.contains("schedule") && !is_known) {
    std::string names;
    for (const std::string_view name : pipeline_schedule_names()) {
      names += concat(names.empty() ? "" : ", ", name);
    }
    throw DecodeError("reef::plan: ", source, ": 'schedule' is ", in_quotes(result.schedule),
                      ".\n  fix: one of ", names, ".");
  }
  const auto placement = io::value_or<std::string>(json, "placement", "", source);
  result.folds = placement == "v";
  const std::string_view wanted = detail::placement_of(result.schedule);
  if (json.contains("placement") && placement != "linear" && placement != "loop" &&
      placement != "v") {
    throw DecodeError("reef::plan: ", source, ": 'placement' is ", in_quotes(placement),
                      ".\n  fix: linear, loop or v.");
  }
  const bool is_one = result.chunks_per_rank == 1 && placement != "v" && wanted != "v";
  if (is_known && !placement.empty() && placement != wanted && !is_one) {
    throw DecodeError("reef::plan: ", source, ": 'placement' is ", placement, ", and ",
                      result.schedule, " places chunks as ", wanted, ".\n  fix: ", wanted,
                      ", or leave it out.");
  }
  const auto require_size = [&](const char* key, std::size_t is, std::size_t should,
                                const char* of) {
    if (is == should) return;
    throw DecodeError("reef::plan: ", source, ": '", key, "' has ", is, " entries for ", should,
                      " ", of, ".\n  fix: one for each.");
  };
  const auto ranks = static_cast<std::size_t>(result.ranks);
  const std::size_t chunks = ranks * static_cast<std::size_t>(result.chunks_per_rank);
  const auto times = [&](const char* key) {
    auto values = numbers_from_json(json, key, 0, detail::longest_case_time, source);
    require_size(key, values.size(), chunks, "chunks");
    return values;
  };
  if (result.folds && result.chunks_per_rank != 2) {
    throw DecodeError("reef::plan: ", source, ": 'v' is ", result.chunks_per_rank,
                      " and 'placement' v.\n  fix: 2 chunks on each rank.");
  }
  result.times.forward = times("t_f");
  result.times.input_backward = times("t_b");
  result.times.weight_backward = times("t_w");
  const auto counts = [&](const char* key, int least) {
    auto values = io::value_or<std::vector<std::int64_t>>(json, key, {}, source);
    if (!json.contains(key)) return std::vector<int>{};
    require_size(key, values.size(), ranks, "ranks");
    std::vector<int> entries;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] < least) {
        throw DecodeError("reef::plan: ", source, ": ", key, "[", i, "] is ", values[i],
                          ".\n  fix: at least ", least, ".");
      }
      // Beyond all micro-batches a number says no more.
      entries.push_back(static_cast<int>(std::min<std::int64_t>(values[i], 1 << 30)));
    }
    return entries;
  };
  result.warm_up = counts("warm_up", 0);
  result.max_activations = counts("max_activations", 1);
  if (!result.warm_up.empty() && result.schedule != "1f1b") {
    throw DecodeError("reef::plan: ", source,
                      ": 'warm_up' is of the schedule 1f1b.\n  fix: leave it out.");
  }
  if (json.contains("group")) {
    result.group = count_from_json(json, "group", 1, max_pipeline_tasks, source);
  }
  result.splits = io::value_or<bool>(json, "split", true, source);
  detail::read_links(result, json, source);
  try {
    if (is_known) (void)result.order();
  } catch (const OptionError& error) {
    throw DecodeError("reef::plan: ", source, ": ", error.what());
  }
  return result;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
