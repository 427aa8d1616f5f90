#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/plan/kinds.hpp>
#include <reef/plan/pipeline_model.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Writes an order as programs: behind each task the sends of what it makes, ahead of each the receives of what it
/// needs.
class PipelineProgramWriter {
public:
  PipelineProgramWriter(const PipelineModel& model, schedule::Completion completion,
                        const PipelineSlots& message_slots)
      : model_(model),
        completion_(completion),
        slots_(message_slots),
        kept_bytes_(1),
        from_(2 * model.order.rank_of_chunk.size()),
        to_(2 * model.order.rank_of_chunk.size()) {
    for (const bool back : {false, true}) {
      auto& edges = edges_[back ? 1 : 0] = back ? model.backward_edges() : model.forward_edges();
      for (std::size_t e = 0; e < edges.size(); ++e) {
        require_chunk(edges[e].from);
        require_chunk(edges[e].to);
        kept_bytes_ = (std::max)(kept_bytes_, edges[e].bytes);
        from_[node(edges[e].from, back)].push_back(static_cast<int>(e));
        to_[node(edges[e].to, back)].push_back(static_cast<int>(e));
      }
    }
    channels_ = 2 * (std::max)(edges_[0].size(), edges_[1].size());
    if (channels_ * static_cast<std::uint64_t>(model.order.micro_batches) > ~std::uint32_t{0}) {
      throw OptionError("reef::plan::programs_of: ", edges_[0].size(), " edges and ",
                        model.order.micro_batches,
                        " micro-batches.\n  why: a message's channel has 32 bits.\n  fix: fewer.");
    }
  }

  std::vector<schedule::Program> write() {
    std::vector<schedule::Program> programs;
    for (int rank = 0; rank < model_.order.ranks(); ++rank) {
      program_ = {};
      program_.rank = rank;
      ids_.clear();
      for (const PipelineTask& task : model_.order.tasks[static_cast<std::size_t>(rank)]) {
        require_chunk(task.chunk);
        add(task);
      }
      programs.push_back(std::move(program_));
    }
    return programs;
  }

private:
  using StorageId = schedule::StorageId;

  enum class What : std::uint8_t { made, arrived, slot, kept, half };

  void require_chunk(int chunk) const {
    const bool is_there = chunk >= 0 && chunk < model_.order.chunks();
    const int rank = is_there ? rank_of(chunk) : -1;
    if (rank >= 0 && rank < model_.order.ranks()) return;
    throw OptionError("reef::plan::programs_of: chunk ", chunk, " of ", model_.order.chunks(),
                      " is on no rank of ", model_.order.ranks(),
                      ".\n  fix: see PipelineOrder::validate().");
  }

  [[nodiscard]] int rank_of(int chunk) const {
    return model_.order.rank_of_chunk[static_cast<std::size_t>(chunk)];
  }
  [[nodiscard]] std::size_t node(int chunk, bool back) const {
    return (back ? model_.order.rank_of_chunk.size() : 0) + static_cast<std::size_t>(chunk);
  }
  static int index_of(int edge, bool back) { return 2 * edge + (back ? 1 : 0); }

  /// `number` is an index of messages, or a chunk.
  StorageId place(What what, int number, int j, Bytes bytes, const char* name) {
    const auto [entry, is_new] = ids_.try_emplace({what, number, j}, 0);
    if (is_new) {
      entry->second = program_.add_storage(
          concat(name, " ", number, what == What::slot ? ", slot " : " of micro-batch ", j),
          std::max<Bytes>(bytes, 1), schedule::Place::device);
    }
    return entry->second;
  }

  StorageId arriving(int index, int j, Bytes bytes) {
    const auto slot = slots_.find({program_.rank, index, j});
    if (slot != slots_.end()) {
      return place(What::slot, index, slot->second, bytes, "message");
    }
    return place(What::arrived, index, j, bytes, "message");
  }

  void transfer(bool sends, int peer, int index, int j, Bytes bytes, StorageId storage) {
    const bool back = index % 2 == 1;
    schedule::Instruction& i =
        program_.add(sends ? (back ? kinds::send_gradient : kinds::send_activation)
                           : (back ? kinds::receive_gradient : kinds::receive_activation),
                     sends ? schedule::Lane::send : schedule::Lane::receive, index, j);
    i.traffic = back ? schedule::Traffic::activation_gradient : schedule::Traffic::activation;
    i.completion = completion_;
    const auto channel = static_cast<std::uint32_t>(static_cast<std::uint64_t>(j) * channels_ +
                                                    static_cast<std::uint64_t>(index));
    (sends ? i.reads : i.writes).push_back({storage, 0});
    (sends ? i.sends : i.receives).push_back({peer, bytes, channel, 1});
  }

  void add(const PipelineTask& task) {
    using Kind = PipelineTaskKind;
    const int j = task.micro_batch;
    const bool back = task.kind != Kind::forward;
    const auto& edges = edges_[back ? 1 : 0];
    std::vector<schedule::Value> reads;
    std::vector<schedule::Value> writes;
    std::vector<std::pair<int, StorageId>> leaving;  // edge, storage
    if (task.kind != Kind::weight_backward) {
      for (const int e : to_[node(task.chunk, back)]) {
        const PipelineEdge& edge = edges[static_cast<std::size_t>(e)];
        const int index = index_of(e, back);
        StorageId storage = 0;
        if (rank_of(edge.from) == program_.rank) {
          storage = place(What::made, index, j, edge.bytes, "made");
        } else {
          storage = arriving(index, j, edge.bytes);
          transfer(false, rank_of(edge.from), index, j, edge.bytes, storage);
        }
        reads.push_back({storage, 0});
      }
      for (const int e : from_[node(task.chunk, back)]) {
        const PipelineEdge& edge = edges[static_cast<std::size_t>(e)];
        const StorageId made = place(What::made, index_of(e, back), j, edge.bytes, "made");
        writes.push_back({made, 0});
        if (rank_of(edge.to) != program_.rank) leaving.emplace_back(e, made);
      }
    }
    const StorageId kept = place(What::kept, task.chunk, j, kept_bytes_, "kept by chunk");
    const bool halves = task.kind == Kind::input_backward || task.kind == Kind::weight_backward;
    (back ? reads : writes).push_back({kept, 0});
    if (halves) {
      const StorageId half = place(What::half, task.chunk, j, kept_bytes_, "half of chunk");
      (task.kind == Kind::input_backward ? writes : reads).push_back({half, 0});
    }
    schedule::Instruction& i = program_.add(kinds::pipeline_tasks[static_cast<std::size_t>(task.kind)],
                                            schedule::Lane::compute, task.chunk, j);
    i.reads = std::move(reads);
    i.writes = std::move(writes);
    i.cost.seconds = model_.times.of(task);
    for (const auto& [e, made] : leaving) {
      const PipelineEdge& edge = edges[static_cast<std::size_t>(e)];
      transfer(true, rank_of(edge.to), index_of(e, back), j, edge.bytes, made);
    }
  }

  const PipelineModel& model_;
  schedule::Completion completion_;
  const PipelineSlots& slots_;
  Bytes kept_bytes_;
  std::vector<PipelineEdge> edges_[2];       // forward, backward
  std::vector<std::vector<int>> from_, to_;  // edges of a node
  std::uint64_t channels_ = 1;
  schedule::Program program_;
  std::map<std::tuple<What, int, int>, StorageId> ids_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
