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
#include <reef/schedule/program.hpp>
#include <reef/schedule/transfer_order.hpp>

namespace reef::test {

/// An operation of a pipeline on micro-batch j: F forward, B whole backward, I and W its halves.
struct PipelineOperation {
  char what;
  int stage;
  int j;
};

/// Stages of a model on ranks, each with the operations that it runs in order. An edge (s, t), s < t, is a tensor
/// that stage s makes and stage t reads.
struct Pipeline {
  std::vector<int> rank_of{};  ///< by stage
  std::vector<std::pair<int, int>> edges{};
  std::vector<std::vector<PipelineOperation>> orders{};  ///< by rank
  std::vector<Seconds> t_f{}, t_b{}, t_w{};              ///< by stage
  Bytes bytes = 1000;                                    ///< of a message

  [[nodiscard]] int ranks() const { return static_cast<int>(orders.size()); }
  [[nodiscard]] Seconds time_of(const PipelineOperation& operation) const {
    const auto s = static_cast<std::size_t>(operation.stage);
    switch (operation.what) {
      case 'F': return t_f[s];
      case 'I': return t_b[s];
      case 'W': return t_w[s];
      default: return t_b[s] + t_w[s];
    }
  }
};

/// Writes a pipeline as programs: behind each operation the sends of what it makes, ahead of each the receives of
/// what it needs. A message has a place of its own, or the slot of its edge that `slots` says.
class PipelinePrograms {
public:
  using Completion = schedule::Completion;
  /// The slot of a message, by receiver, index and micro-batch.
  using Slots = std::map<std::tuple<int, int, int>, int>;

  PipelinePrograms(const Pipeline& pipeline, Completion completion, const Slots& slots = {})
      : pipeline_(pipeline), completion_(completion), slots_(slots) {
    for (int rank = 0; rank < pipeline.ranks(); ++rank) {
      program_ = {};
      program_.rank = rank;
      ids_.clear();
      for (const PipelineOperation& operation : pipeline.orders[static_cast<std::size_t>(rank)]) {
        add(operation);
      }
      programs.push_back(std::move(program_));
    }
  }

  std::vector<schedule::Program> programs{};

  static Slots slots_of(const std::vector<schedule::Program>& programs,
                        const std::vector<schedule::FreeTransfer>& transfers,
                        const schedule::TransferSlots& slots) {
    Slots result;
    for (std::size_t n = 0; n < transfers.size(); ++n) {
      const schedule::Program& receiver = programs[transfers[n].receiver];
      const schedule::Instruction& receive = receiver.round[transfers[n].receive];
      result[{receiver.rank, receive.index, receive.micro_batch}] = slots.of_transfer[n];
    }
    return result;
  }

private:
  using StorageId = schedule::StorageId;

  StorageId named(const std::string& name) {
    const auto [entry, is_new] = ids_.emplace(name, 0);
    if (is_new) entry->second = program_.add_storage(name, pipeline_.bytes, schedule::Place::device);
    return entry->second;
  }

  /// What of edge e arrives at its reader, forward or back.
  StorageId arriving(int e, bool back, int j) {
    const int index = 2 * e + (back ? 1 : 0);
    const auto slot = slots_.find({program_.rank, index, j});
    if (slot == slots_.end()) return named(concat(back ? "gradient " : "activation ", e, " of ", j));
    return named(concat("slot ", slot->second, " of ", index));
  }

  static schedule::Traffic traffic(bool back) {
    return back ? schedule::Traffic::activation_gradient : schedule::Traffic::activation;
  }

  /// Between stage `other` and the stage of the operation at hand.
  [[nodiscard]] bool crosses(int other) const { return rank_at(other) != program_.rank; }
  [[nodiscard]] int rank_at(int stage) const {
    return pipeline_.rank_of[static_cast<std::size_t>(stage)];
  }

  void transfer(bool sends, int peer, int e, bool back, int j, StorageId storage) {
    const int index = 2 * e + (back ? 1 : 0);
    schedule::Instruction& i =
        program_.add(concat(sends ? "Send" : "Receive", back ? "Gradient" : "Activation"),
                     sends ? schedule::Lane::send : schedule::Lane::receive, index, j);
    i.traffic = traffic(back);
    i.completion = completion_;
    const auto channel = static_cast<std::uint32_t>((j << 16) + index);
    const schedule::Message message{peer, pipeline_.bytes, channel, 1};
    (sends ? i.reads : i.writes).push_back({storage, 0});
    (sends ? i.sends : i.receives).push_back(message);
  }

  void add(const PipelineOperation& operation) {
    const char what = operation.what;
    const int s = operation.stage;
    const int j = operation.j;
    const bool forward = what == 'F';
    std::vector<schedule::Value> reads;
    std::vector<schedule::Value> writes;
    std::vector<std::tuple<int, int, StorageId>> leaving;  // peer, edge, storage
    for (std::size_t k = 0; k < pipeline_.edges.size() && what != 'W'; ++k) {
      const auto [from, to] = pipeline_.edges[k];
      const int e = static_cast<int>(k);
      const bool comes = forward ? to == s : from == s;
      const bool goes = forward ? from == s : to == s;
      if (comes) {
        const int other = forward ? from : to;
        if (crosses(other)) {
          const StorageId storage = arriving(e, !forward, j);
          transfer(false, rank_at(other), e, !forward, j, storage);
          reads.push_back({storage, 0});
        } else {
          reads.push_back({named(concat(forward ? "made " : "gradient made ", e, " of ", j)), 0});
        }
      }
      if (goes) {
        const int other = forward ? to : from;
        const StorageId made = named(concat(forward ? "made " : "gradient made ", e, " of ", j));
        writes.push_back({made, 0});
        if (crosses(other)) leaving.emplace_back(rank_at(other), e, made);
      }
    }
    const StorageId kept = named(concat("kept ", s, " of ", j));
    const StorageId half = named(concat("half ", s, " of ", j));
    if (forward) writes.push_back({kept, 0});
    if (what == 'B' || what == 'I') reads.push_back({kept, 0});
    if (what == 'I') writes.push_back({half, 0});
    if (what == 'W') reads = {{kept, 0}, {half, 0}};
    schedule::Instruction& i =
        program_.add(std::string(1, what), schedule::Lane::compute, s, j);
    i.reads = std::move(reads);
    i.writes = std::move(writes);
    i.cost.seconds = pipeline_.time_of(operation);
    for (const auto& [peer, e, storage] : leaving) transfer(true, peer, e, !forward, j, storage);
  }

  const Pipeline& pipeline_;
  Completion completion_;
  const Slots& slots_;
  schedule::Program program_;
  std::map<std::string, StorageId> ids_;
};

}  // namespace reef::test
