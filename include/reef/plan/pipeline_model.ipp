#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/plan/detail/free_pipeline.hpp>
#include <reef/plan/detail/pipeline_program_writer.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/schedule/simulate.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE Seconds PipelineTimes::of(const PipelineTask& task) const {
  const auto chunk = static_cast<std::size_t>(task.chunk);
  switch (task.kind) {
    case PipelineTaskKind::forward: return forward[chunk];
    case PipelineTaskKind::input_backward: return input_backward[chunk];
    case PipelineTaskKind::weight_backward: return weight_backward[chunk];
    case PipelineTaskKind::backward: break;
  }
  return input_backward[chunk] + weight_backward[chunk];
}

REEF_INLINE PipelineTimes PipelineTimes::even(const PipelineOrder& order, Seconds f, Seconds b,
                                              Seconds w, schedule::Link link) {
  const auto chunks = order.rank_of_chunk.size();
  return {.forward = std::vector<Seconds>(chunks, f),
          .input_backward = std::vector<Seconds>(chunks, b),
          .weight_backward = std::vector<Seconds>(chunks, w),
          .world = schedule::World::uniform(order.ranks(), {}, link)};
}

REEF_INLINE std::vector<PipelineEdge> chain_edges(int chunks, Bytes bytes) {
  std::vector<PipelineEdge> edges;
  for (int c = 1; c < chunks; ++c) edges.push_back({c - 1, c, bytes});
  return edges;
}

REEF_INLINE std::vector<PipelineEdge> PipelineModel::forward_edges() const {
  return forward.empty() ? chain_edges(order.chunks(), 0) : forward;
}

REEF_INLINE std::vector<PipelineEdge> PipelineModel::backward_edges() const {
  if (!backward.empty()) return backward;
  std::vector<PipelineEdge> edges = forward_edges();
  for (PipelineEdge& edge : edges) std::swap(edge.from, edge.to);
  return edges;
}

REEF_INLINE void PipelineModel::validate() const {
  order.validate();
  constexpr Seconds longest = 1e30;
  const auto chunks = order.rank_of_chunk.size();
  const auto require_times = [&](const char* name, const std::vector<Seconds>& given) {
    if (given.size() != chunks) {
      throw OptionError("reef::plan: ", given.size(), " times of ", name, " for ", chunks,
                        " chunks.\n  fix: one for each.");
    }
    for (std::size_t c = 0; c < chunks; ++c) {
      if (within(given[c], 0, longest)) continue;
      throw OptionError("reef::plan: ", name, " of chunk ", c, " takes ", given[c],
                        " s.\n  fix: 0 to ", longest, " s.");
    }
  };
  require_times("forward", times.forward);
  require_times("input_backward", times.input_backward);
  require_times("weight_backward", times.weight_backward);
  const auto ranks = static_cast<std::size_t>(order.ranks());
  if (times.world.machines.size() != ranks || times.world.links.size() != ranks * ranks) {
    throw OptionError("reef::plan: a world of ", times.world.machines.size(), " machines and ",
                      times.world.links.size(), " links for ", ranks,
                      " ranks.\n  fix: one machine for each, and one link for each ordered pair.");
  }
  for (std::size_t l = 0; l < times.world.links.size(); ++l) {
    const schedule::Link& link = times.world.links[l];
    if (within(link.latency, 0, longest) && within(link.bytes_per_second, 0, longest)) continue;
    throw OptionError("reef::plan: the link from rank ", l / ranks, " to rank ", l % ranks,
                      " has a latency of ", link.latency, " s and ", link.bytes_per_second,
                      " bytes/s.\n  fix: numbers, none below 0.");
  }
  const auto require_edges = [&](const std::vector<PipelineEdge>& edges, bool back) {
    for (std::size_t e = 0; e < edges.size(); ++e) {
      const PipelineEdge& edge = edges[e];
      const int low = back ? edge.to : edge.from;
      const int high = back ? edge.from : edge.to;
      if (low >= 0 && low < high && high < order.chunks()) continue;
      throw OptionError("reef::plan: ", back ? "backward" : "forward", "[", e, "] goes from chunk ",
                        edge.from, " to chunk ", edge.to, " of ", order.chunks(), ".\n  fix: to a ",
                        back ? "lower" : "higher", " one that is there.");
    }
  };
  require_edges(forward, false);
  require_edges(backward, true);
}

REEF_INLINE std::vector<schedule::Program> programs_of(const PipelineModel& model,
                                                       schedule::Completion completion,
                                                       const PipelineSlots& message_slots) {
  return detail::PipelineProgramWriter(model, completion, message_slots).write();
}

REEF_INLINE PipelineSlots pipeline_slots(const std::vector<schedule::Program>& programs,
                                         const std::vector<schedule::FreeTransfer>& transfers,
                                         const schedule::TransferSlots& message_slots) {
  PipelineSlots result;
  for (std::size_t n = 0; n < transfers.size(); ++n) {
    const schedule::Program& receiver = programs[transfers[n].receiver];
    const schedule::Instruction& receive = receiver.round[transfers[n].receive];
    result[{receiver.rank, receive.index, receive.micro_batch}] = message_slots.of_transfer[n];
  }
  return result;
}

namespace detail {

/// The first circle of ranks that wait for each other: each stands at a task for one that another has not reached.
inline std::string circle_of(const PipelineModel& model,
                             const std::vector<std::size_t>& positions) {
  const bool names = names_chunks(model.order);
  const std::array<std::vector<PipelineEdge>, 2> edges{model.forward_edges(),
                                                       model.backward_edges()};
  const auto at = [&](std::size_t rank) { return model.order.tasks[rank][positions[rank]]; };
  // Rank and place of what a task waits for.
  const auto lacks = [&](const PipelineTask& task) {
    const bool forward = task.kind == PipelineTaskKind::forward;
    for (const PipelineEdge& edge : edges[forward ? 0 : 1]) {
      if (edge.to != task.chunk) continue;
      const auto rank =
          static_cast<std::size_t>(model.order.rank_of_chunk[static_cast<std::size_t>(edge.from)]);
      const auto& tasks = model.order.tasks[rank];
      for (std::size_t n = positions[rank]; n < tasks.size(); ++n) {
        const PipelineTask& other = tasks[n];
        if (other.chunk == edge.from && other.micro_batch == task.micro_batch &&
            other.kind != PipelineTaskKind::weight_backward &&
            (other.kind == PipelineTaskKind::forward) == forward) {
          return std::pair(rank, n);
        }
      }
    }
    return std::pair(model.order.tasks.size(), std::size_t{0});
  };
  std::size_t rank = 0;
  while (positions[rank] == model.order.tasks[rank].size()) ++rank;
  std::vector<bool> seen(positions.size(), false);
  for (; !seen[rank]; rank = lacks(at(rank)).first) seen[rank] = true;
  std::string text;
  const std::size_t first = rank;
  do {
    const auto [other, place] = lacks(at(rank));
    text += concat(text.empty() ? "" : ", ", "rank ", rank, " waits at ", text_of(at(rank), names),
                   " for ", text_of(model.order.tasks[other][place], names), " of rank ", other);
    rank = other;
  } while (rank != first);
  return text;
}

/// What each rank holds.
inline void count_peaks(const PipelineOrder& order, PipelineEstimate& result) {
  for (const auto& tasks : order.tasks) {
    int held = 0;
    int until_half = 0;
    int pending = 0;
    std::array<int, 3> most{};
    for (const PipelineTask& task : tasks) {
      const bool forward = task.kind == PipelineTaskKind::forward;
      const bool half = task.kind == PipelineTaskKind::input_backward;
      const bool weight = task.kind == PipelineTaskKind::weight_backward;
      held += forward ? 1 : half ? 0 : -1;
      until_half += forward ? 1 : weight ? 0 : -1;
      pending += half ? 1 : weight ? -1 : 0;
      most = {(std::max)(most[0], held), (std::max)(most[1], until_half),
              (std::max)(most[2], pending)};
    }
    result.peak_activations.push_back(most[0]);
    result.peak_until_input_half.push_back(most[1]);
    result.peak_pending_weight.push_back(most[2]);
  }
}

/// When tasks end where ranks share uplinks or downlinks.
inline std::vector<std::vector<Seconds>> simulated_ends(const PipelineModel& model) {
  std::vector<schedule::Program> programs = programs_of(model);
  schedule::order_transfers(programs, model.times.world);
  std::vector<std::vector<Seconds>> ends(model.order.tasks.size());
  const auto simulation = schedule::simulate(programs, model.times.world, 1);
  std::vector<std::pair<int, std::pair<std::uint32_t, Seconds>>> computed;
  for (const schedule::SimulatedSpan& span : simulation.spans) {
    if (span.lane == schedule::Lane::compute) {
      computed.push_back({span.rank, {span.instruction, span.end}});
    }
  }
  std::sort(computed.begin(), computed.end());
  for (const auto& [rank, end] : computed)
    ends[static_cast<std::size_t>(rank)].push_back(end.second);
  return ends;
}

}  // namespace detail

REEF_INLINE PipelineEstimate estimate(const PipelineModel& model) {
  model.validate();
  const PipelineOrder& order = model.order;
  PipelineEstimate result;
  detail::FreePipeline free(model, order.ranks());
  result.makespan = free.run(order.tasks);
  if (result.makespan == detail::FreePipeline::never) {
    throw ScheduleError(
        "reef::plan: the order deadlocks: ", detail::circle_of(model, free.positions()),
        ".\n  why: each of these comes behind the one at which its rank waits.\n  fix: "
        "an order in which one process could run all tasks.");
  }
  const auto& machines = model.times.world.machines;
  const bool shares = std::any_of(machines.begin(), machines.end(), [](const auto& machine) {
    return machine.uplink_bytes_per_second > 0 || machine.downlink_bytes_per_second > 0;
  });
  result.task_ends = shares ? detail::simulated_ends(model) : free.ends();
  result.makespan = 0;
  for (const auto& ends : result.task_ends) {
    result.rank_end.push_back(ends.back());
    result.makespan = (std::max)(result.makespan, ends.back());
  }
  Seconds all_busy = 0;
  for (std::size_t r = 0; r < order.tasks.size(); ++r) {
    Seconds busy = 0;
    for (const PipelineTask& task : order.tasks[r]) busy += free.time_of(task);
    const Seconds start = result.task_ends[r].front() - free.time_of(order.tasks[r].front());
    result.idle.push_back(result.makespan - busy);
    result.span_idle.push_back(result.rank_end[r] - start - busy);
    all_busy += busy;
  }
  const Seconds all = result.makespan * order.ranks();
  result.bubble = all > 0 ? 1 - all_busy / all : 0;
  detail::count_peaks(order, result);
  for (const bool back : {false, true}) {
    for (const PipelineEdge& edge : back ? model.backward_edges() : model.forward_edges()) {
      const int from = order.rank_of_chunk[static_cast<std::size_t>(edge.from)];
      const int to = order.rank_of_chunk[static_cast<std::size_t>(edge.to)];
      if (from != to) result.messages[{from, to}] += order.micro_batches;
    }
  }
  return result;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
