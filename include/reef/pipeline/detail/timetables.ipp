#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/remote_edges.hpp>
#include <reef/pipeline/detail/timetables.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline::detail {

REEF_INLINE std::vector<int> looped(int stages, int chunks_per_stage) {
  std::vector<int> places;
  for (int chunk = 0; chunk < stages * chunks_per_stage; ++chunk) places.push_back(chunk % stages);
  return places;
}

REEF_INLINE Timetables::Timetables(const run::StepPlan& plan, int unit) : plan_(plan), unit_(unit) {
  if (unit < 0) {
    throw OptionError("reef::pipeline: a unit of ", unit,
                      " micro-batches.\n  fix: 1 or more, or 0: all that a replica has.");
  }
  const auto ranks = static_cast<std::size_t>(plan.ranks());
  const std::optional<schedule::World>& world = plan.world;
  if (world && (world->machines.size() != ranks || world->links.size() != ranks * ranks)) {
    throw OptionError("reef::pipeline: the plan's world has ", world->machines.size(), " machines and ",
                      world->links.size(), " links for ", ranks,
                      " ranks.\n  fix: a machine for each rank, and a link for each ordered pair.");
  }
  stage_of_chunk_.resize(static_cast<std::size_t>(plan.chunk_of_segment.back()) + 1);
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    stage_of_chunk_[to_index(plan.chunk_of_segment[s])] = plan.stage_of_segment[s];
  }
  // Between chunks of one stage nothing is sent, but the later waits for the earlier.
  edges_ = plan.remote_edges;
  for (const graph::RemoteEdge& edge :
       graph::remote_edges(*plan.dag, plan.segments, plan.chunk_of_segment)) {
    if (plan.stage_of_segment[to_index(edge.from)] == plan.stage_of_segment[to_index(edge.to)]) {
      edges_.push_back(edge);
    }
  }
}

REEF_INLINE void Timetables::add(int count, const Order& order) {
  const int replica = static_cast<int>(result_.training.size());
  for (int other = 0; other < replica; ++other) {
    if (plan_.micro_batches[to_index(other)] != count || plan_.world) continue;
    result_.training.push_back(result_.training[to_index(other)]);
    result_.evaluation.push_back(result_.evaluation[to_index(other)]);
    return;
  }
  const int unit = unit_ == 0 ? count : (std::min)(unit_, count);
  plan::PipelineModel model = model_of(replica, unit);
  model.order = order(std::as_const(model), (count + unit - 1) / unit);
  require_stages(model.order);
  result_.unit = (std::max)(result_.unit, unit);
  result_.training.push_back(timed(model, count, unit));
  result_.evaluation.push_back(forwards_of(*result_.training.back()));
}

REEF_INLINE void Timetables::require_stages(const plan::PipelineOrder& order) const {
  if (order.rank_of_chunk == stage_of_chunk_) return;
  const auto list = [](const std::vector<int>& stages) {
    std::string text;
    for (const int stage : stages) text += concat(" ", stage);
    return text;
  };
  throw OptionError("reef::pipeline: the order has its chunks on stages", list(order.rank_of_chunk),
                    ", but the model's are on stages", list(stage_of_chunk_),
                    ".\n  fix: a Topology without stage_of_segment, or with the order's.");
}

REEF_INLINE plan::PipelineModel Timetables::model_of(int replica, int unit) const {
  plan::PipelineModel model;
  model.order.rank_of_chunk = stage_of_chunk_;
  const std::size_t chunks = stage_of_chunk_.size();
  model.times.forward.assign(chunks, 0);
  model.times.input_backward.assign(chunks, 0);
  model.times.weight_backward.assign(chunks, 0);
  for (std::size_t s = 0; s < plan_.segments.size(); ++s) {
    const std::size_t chunk = to_index(plan_.chunk_of_segment[s]);
    const run::SegmentTimes& times = plan_.segment_times[s];
    const bool again = !plan_.activations.empty() && run::recomputes(plan_.activations[s]);
    model.times.forward[chunk] += unit * times.forward;
    model.times.input_backward[chunk] +=
        unit * (times.backward - times.weight_backward + (again ? times.forward : 0));
    model.times.weight_backward[chunk] += unit * times.weight_backward;
  }
  model.times.world = world_of(replica);
  for (const graph::RemoteEdge& edge : edges_) {
    (edge.gradient ? model.backward : model.forward)
        .push_back({plan_.chunk_of_segment[to_index(edge.from)],
                    plan_.chunk_of_segment[to_index(edge.to)],
                    static_cast<Bytes>(unit) * plan_.dag->tensor_at(edge.tensor).spec.bytes()});
  }
  return model;
}

REEF_INLINE schedule::World Timetables::world_of(int replica) const {
  const int stages = plan_.topology.stages;
  if (!plan_.world) return schedule::World::uniform(stages, {}, {});
  replica = (std::min)(replica, plan_.topology.replicas - 1);  // virtual ranks are on one
  schedule::World world;
  for (int stage = 0; stage < stages; ++stage) {
    const int rank = plan_.topology.rank(replica, stage);
    world.machines.push_back(plan_.world->machines[to_index(rank)]);
    for (int other = 0; other < stages; ++other) {
      world.links.push_back(plan_.world->link(rank, plan_.topology.rank(replica, other)));
    }
  }
  return world;
}

REEF_INLINE std::shared_ptr<const run::Timetable> Timetables::timed(const plan::PipelineModel& model, int count,
                                                          int unit) const {
  run::Timetable timetable{model.order, {}, plan::estimate(model).task_ends, {}, count, unit};
  timetable.begins = timetable.ends;
  for (std::size_t stage = 0; stage < timetable.begins.size(); ++stage) {
    for (std::size_t i = 0; i < timetable.begins[stage].size(); ++i) {
      timetable.begins[stage][i] -= model.times.of(model.order.tasks[stage][i]);
    }
  }
  return with_slots(std::move(timetable));
}

REEF_INLINE std::shared_ptr<const run::Timetable> Timetables::forwards_of(const run::Timetable& all) const {
  run::Timetable timetable{
      {all.order.micro_batches, all.order.rank_of_chunk, {}}, {}, {}, {}, all.micro_batches, all.unit};
  for (std::size_t stage = 0; stage < all.ends.size(); ++stage) {
    auto& tasks = timetable.order.tasks.emplace_back();
    auto& begins = timetable.begins.emplace_back();
    auto& ends = timetable.ends.emplace_back();
    for (std::size_t i = 0; i < all.ends[stage].size(); ++i) {
      if (all.order.tasks[stage][i].kind != plan::PipelineTaskKind::forward) continue;
      tasks.push_back(all.order.tasks[stage][i]);
      begins.push_back(all.begins[stage][i]);
      ends.push_back(all.ends[stage][i]);
    }
  }
  return with_slots(std::move(timetable));
}

REEF_INLINE std::shared_ptr<const run::Timetable> Timetables::with_slots(run::Timetable timetable) const {
  for (const graph::RemoteEdge& edge : plan_.remote_edges) {
    timetable.edge_slots.push_back(slots_of(timetable, edge));
  }
  return std::make_shared<const run::Timetable>(std::move(timetable));
}

REEF_INLINE int Timetables::slots_of(const run::Timetable& timetable, const graph::RemoteEdge& edge) const {
  const std::vector<Seconds> produced = times_of(timetable, edge.from, edge.gradient, timetable.ends);
  const std::vector<Seconds> read = times_of(timetable, edge.to, edge.gradient, timetable.begins);
  std::size_t most = 1;
  std::size_t done = 0;
  for (std::size_t n = 0; n < produced.size(); ++n) {
    while (done < n && read[done] <= produced[n]) ++done;
    most = (std::max)(most, n + 1 - done);
  }
  return static_cast<int>(most);
}

REEF_INLINE std::vector<Seconds> Timetables::times_of(const run::Timetable& timetable, int segment, bool back,
                                            const std::vector<std::vector<Seconds>>& times) const {
  std::vector<Seconds> result;
  const std::size_t stage = to_index(plan_.stage_of_segment[to_index(segment)]);
  const auto& tasks = timetable.order.tasks[stage];
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].chunk != plan_.chunk_of_segment[to_index(segment)]) continue;
    if (tasks[i].kind == plan::PipelineTaskKind::weight_backward) continue;
    if ((tasks[i].kind != plan::PipelineTaskKind::forward) != back) continue;
    const auto [first, last] = timetable.micro_batches_of(tasks[i].micro_batch);
    result.insert(result.end(), to_index(last - first), times[stage][i]);
  }
  return result;
}

}  // namespace pipeline::detail
}  // namespace v0
}  // namespace reef
