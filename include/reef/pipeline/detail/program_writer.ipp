#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/pipeline/detail/program_writer.hpp>
#include <reef/pipeline/detail/shared_storages.hpp>
#include <reef/pipeline/detail/versioned_weights.hpp>
#include <reef/pipeline/kinds.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/transfers.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline::detail {

REEF_INLINE ProgramWriter::ProgramWriter(run::StepBuilder& builder, const run::Timetable& timetable, int first,
                                         int fold)
    : builder_(builder),
      plan_(builder.plan),
      timetable_(timetable),
      first_(first),
      fold_(fold),
      rings_(builder.scratch<Rings>()) {
  const std::size_t edges = plan_.remote_edges.size();
  arriving_.resize(plan_.segments.size());
  leaving_.resize(plan_.segments.size());
  rings_.received.resize(edges);
  rings_.sent.resize(edges);
  for (std::size_t e = 0; e < edges; ++e) {
    const graph::RemoteEdge& edge = plan_.remote_edges[e];
    if (edge.gradient && !builder.trains()) continue;
    const std::size_t back = edge.gradient ? 1 : 0;
    if (stage_of(edge.to) == builder.stage() || stage_of(edge.from) == builder.stage()) {
      crossing_.insert({edge.tensor, edge.gradient});
    }
    if (stage_of(edge.to) == builder.stage()) {
      arriving_[to_index(edge.to)][back].push_back(static_cast<int>(e));
      add_ring(rings_.received[e], e, "received");
    }
    if (stage_of(edge.from) == builder.stage()) {
      leaving_[to_index(edge.from)][back].push_back(static_cast<int>(e));
      add_ring(rings_.sent[e], e, "sent");
    }
  }
  await_in_order_of_production();
}

REEF_INLINE void ProgramWriter::run() {
  if (builder_.updates_within_the_step()) {
    versions_.emplace(builder_, first_, timetable_.micro_batches, fold_);
  }
  bool waits = plan_.timetables.barrier && builder_.trains();
  for (const plan::PipelineTask& task : timetable_.order.tasks[to_index(builder_.stage())]) {
    if (builder_.phase.one_micro_batch && task.micro_batch > 0) continue;
    const bool back = task.kind != plan::PipelineTaskKind::forward;
    const run::Value passed = waits && back ? add_barrier() : run::Value{};
    const std::size_t begin = builder_.program.round.size();
    write(task);
    if (!waits || !back) continue;
    waits = false;
    const auto first = std::find_if(
        builder_.program.round.begin() + static_cast<std::ptrdiff_t>(begin),
        builder_.program.round.end(), [](const auto& i) { return i.lane == run::Lane::compute; });
    first->after.push_back(passed);
  }
  if (builder_.trains() && !versions_) run::add_folds(builder_, fold_);
  versions_.reset();
  const int count = builder_.phase.one_micro_batch ? 1 : timetable_.micro_batches;
  PlaceSharer(builder_, first_, count, crossing_).run();
}

REEF_INLINE void ProgramWriter::add_ring(std::vector<run::StorageId>& ring, std::size_t edge, const char* what) {
  const graph::Tensor& tensor = plan_.dag->tensor_at(plan_.remote_edges[edge].tensor);
  const int slot_count =
      plan_.timetables.held ? timetable_.micro_batches : timetable_.edge_slots[edge];
  for (int slot = static_cast<int>(ring.size()); slot < slot_count; ++slot) {
    ring.push_back(builder_.program.add_storage(
        concat("slot ", slot, " of ", plan_.remote_edges[edge].gradient ? "gradients" : "values", " of ",
               tensor.name, " ", what, " (edge ", edge, ")"),
        run::edge_bytes(plan_, static_cast<int>(edge)), run::Place::host));
  }
}

REEF_INLINE void ProgramWriter::await_in_order_of_production() {
  std::vector<std::tuple<Seconds, int, std::size_t, int, int, int>> keys;
  const auto& tasks = timetable_.order.tasks;
  for (int stage = 0; stage < static_cast<int>(tasks.size()); ++stage) {
    for (std::size_t position = 0; position < tasks[to_index(stage)].size(); ++position) {
      const plan::PipelineTask& task = tasks[to_index(stage)][position];
      if (task.kind == plan::PipelineTaskKind::weight_backward) continue;
      const bool back = task.kind != plan::PipelineTaskKind::forward;
      for (const int e : produced_for_here(task.chunk, back)) {
        const int from = plan_.remote_edges[to_index(e)].from;
        if (stage_of(from) != stage) continue;
        const auto [begin, end] = timetable_.micro_batches_of(task.micro_batch);
        for (int j = begin; j < end; ++j) {
          keys.emplace_back(timetable_.ends[to_index(stage)][position], stage, position,
                            back ? -from : from, j, e);
        }
      }
    }
  }
  std::sort(keys.begin(), keys.end());
  for (const auto& [end, stage, position, segment, j, e] : keys) {
    place_of_[{e, j}] = awaited_.size();
    awaited_.push_back({e, j});
  }
}

REEF_INLINE std::vector<int> ProgramWriter::produced_for_here(int chunk, bool back) {
  std::vector<int>& edges = produced_[{chunk, back}];
  if (!edges.empty()) return edges;
  for (std::size_t s = 0; s < arriving_.size(); ++s) {
    for (const int e : arriving_[s][back ? 1 : 0]) {
      if (plan_.chunk_of_segment[to_index(plan_.remote_edges[to_index(e)].from)] == chunk)
        edges.push_back(e);
    }
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

REEF_INLINE run::Value ProgramWriter::add_barrier() {
  const Group group = plan_.topology.pipeline(plan_.topology.replica_of(builder_.rank()));
  const auto storage = [&](const char* name, std::size_t doubles, run::Place place) {
    return builder_.program.add_storage(name, doubles * sizeof(double), place);
  };
  const run::Value here{storage("forwards of this stage", 1, run::Place::device), 0};
  const run::Value all{storage("forwards of all stages", group.members.size(), run::Place::host), 0};
  builder_.program.add(kinds::forwards_done, run::Lane::compute).writes = {here};
  run::Instruction& barrier = builder_.program.add(kinds::forwards_barrier, run::Lane::send);
  barrier.traffic = schedule::Traffic::scalars;
  run::CollectiveView(barrier, here, all);
  std::vector<std::int64_t> offsets;
  for (std::size_t member = 0; member <= group.members.size(); ++member) {
    offsets.push_back(static_cast<std::int64_t>(member));
  }
  const auto edges = static_cast<std::uint32_t>(plan_.remote_edges.size());
  run::add_all_gather_messages(barrier, builder_, sizeof(double), run::first_pipeline_channel + edges,
                               group, std::move(offsets));
  return all;
}

REEF_INLINE void ProgramWriter::write(const plan::PipelineTask& task) {
  using Kind = plan::PipelineTaskKind;
  const bool back = task.kind != Kind::forward;
  const auto those = timetable_.micro_batches_of(task.micro_batch);
  const int begin = those.first;
  const int end = builder_.phase.one_micro_batch ? begin + 1 : those.second;
  std::vector<int> segments;
  for (const int s : builder_.segments()) {
    if (plan_.chunk_of_segment[to_index(s)] == task.chunk) segments.push_back(s);
  }
  if (back) std::reverse(segments.begin(), segments.end());
  if (versions_) versions_->select(begin);
  const auto begins_sum = [this](int j) { return versions_ ? versions_->begins_update(j) : j == 0; };
  if (task.kind == Kind::weight_backward) {
    for (const int s : segments) {
      for (int j = begin; j < end; ++j) run::add_weight_backward(builder_, s, first_ + j, fold_, begins_sum(j));
    }
    if (versions_) versions_->update_behind(end - 1);
    return;
  }
  std::size_t needed = posted_;
  const auto each_awaited = [&](int s, const auto& f) {
    for (int j = begin; j < end; ++j) {
      for (const int e : arriving_[to_index(s)][back ? 1 : 0]) f(place_of_.at({e, j}));
    }
  };
  for (const int s : segments) {
    each_awaited(s, [&](std::size_t place) { needed = (std::max)(needed, place + 1); });
  }
  while (posted_ < needed) post(posted_++);
  for (const int s : segments) {
    each_awaited(s, [this](std::size_t place) { land(place); });
    for (int j = begin; j < end; ++j) {
      switch (task.kind) {
        case Kind::forward: run::add_forward(builder_, s, first_ + j); break;
        case Kind::input_backward: run::add_input_backward(builder_, s, first_ + j, fold_, begins_sum(j)); break;
        default: run::add_backward(builder_, s, first_ + j, fold_, begins_sum(j));
      }
      for (const int e : leaving_[to_index(s)][back ? 1 : 0]) send(e, j);
    }
  }
  if (versions_ && task.kind == Kind::backward) versions_->update_behind(end - 1);
}

REEF_INLINE void ProgramWriter::post(std::size_t place) {
  Awaited& message = awaited_[place];
  const auto slot_count = static_cast<int>(rings_.received[to_index(message.edge)].size());
  if (message.micro_batch >= slot_count)
    land(place_of_.at({message.edge, message.micro_batch - slot_count}));
  run::Instruction& receive = transfer(kinds::receive, run::Lane::receive, message.edge, message.micro_batch);
  const run::ReceiveView view(receive, run::Lists::added);
  view.payload.front() = {slot(rings_.received, message), 0};
  view.message() = message_of(message.edge, plan_.remote_edges[to_index(message.edge)].from);
  message.received = true;
}

REEF_INLINE void ProgramWriter::land(std::size_t place) {
  Awaited& message = awaited_[place];
  if (message.landed) return;
  if (!message.received) {
    throw ScheduleError(
        "reef::pipeline: stage ", builder_.stage(), " needs ",
        plan_.dag->tensor_at(plan_.remote_edges[to_index(message.edge)].tensor).name,
        " of micro-batch ", message.micro_batch,
        " before it is produced.\n  why: the order runs a segment ahead of what it "
        "reads.\n  fix: an order that plan::PipelineOrder::validate accepts.");
  }
  message.landed = true;
  copy(run::kinds::upload, run::Lane::load, message.edge, message.micro_batch, slot(rings_.received, message),
       tensor_of(message.edge, message.micro_batch));
}

REEF_INLINE void ProgramWriter::send(int e, int j) {
  const run::StorageId at = slot(rings_.sent, {e, j});
  copy(run::kinds::download, run::Lane::evict, e, j, tensor_of(e, j), at);
  run::Instruction& send = transfer(kinds::send, run::Lane::send, e, j);
  const run::SendView view(send, run::Lists::added);
  view.payload.front() = {at, 0};
  view.message() = message_of(e, plan_.remote_edges[to_index(e)].to);
}

REEF_INLINE void ProgramWriter::copy(std::string_view kind, run::Lane lane, int e, int j, run::StorageId from,
          run::StorageId to) {
  run::Instruction& copy = builder_.program.add(kind, lane, e, first_ + j);
  copy.traffic = run::traffic_of_edge(plan_, e);
  run::add_copied(copy, {from, 0}, {to, 0});
  copy.cost.bytes = builder_.program.storages[tensor_of(e, j)].bytes;
  copy.cost.copies = 1;
}

REEF_INLINE run::Instruction& ProgramWriter::transfer(std::string_view kind, run::Lane lane, int e, int j) {
  run::Instruction& transfer = builder_.program.add(kind, lane, e, first_ + j);
  transfer.completion =
      plan_.timetables.held ? schedule::Completion::held : schedule::Completion::posted;
  transfer.traffic = run::traffic_of_edge(plan_, e);
  return transfer;
}

REEF_INLINE schedule::Message ProgramWriter::message_of(int e, int other) const {
  const Bytes bytes = plan_.dag->tensor_at(plan_.remote_edges[to_index(e)].tensor).spec.bytes();
  const comm::Cost cost = comm::message_cost(bytes, plan_.piece_bytes);
  const run::Topology& topology = plan_.topology;
  return {topology.rank(topology.replica_of(builder_.rank()), stage_of(other)), cost.bytes,
          run::first_pipeline_channel + static_cast<std::uint32_t>(e), cost.messages};
}

REEF_INLINE run::StorageId ProgramWriter::slot(const std::vector<std::vector<run::StorageId>>& rings,
                                  const Awaited& message) const {
  const auto& ring = rings[to_index(message.edge)];
  return ring[to_index(message.micro_batch) % ring.size()];
}

REEF_INLINE run::StorageId ProgramWriter::tensor_of(int e, int j) const {
  const graph::RemoteEdge& edge = plan_.remote_edges[to_index(e)];
  const run::StepBuilder::MicroBatch& storages = builder_.micro_batches[to_index(first_ + j)];
  return (edge.gradient ? storages.gradients : storages.tensors)[to_index(edge.tensor)];
}

}  // namespace pipeline::detail
}  // namespace v0
}  // namespace reef
