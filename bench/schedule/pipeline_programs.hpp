#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/schedule/program.hpp>

namespace reef_bench {

/// A training step of replicas of a pipeline as plain data, as one rank's: 1F1B, what arrives and leaves in rings of
/// slots, then of each bucket a reduce-scatter, an update and an all-gather among the replicas of the stage, and a
/// number of all ranks.
struct PipelineStep {
  int stages;
  int replicas;
  int micro_batches;
  bool posted;
  int buckets = 8;
  int slots = 2;
  reef::Bytes message = 1 << 20;

  [[nodiscard]] int ranks() const { return stages * replicas; }

  /// Of replica r and stage s it is rank r * stages + s.
  [[nodiscard]] reef::schedule::Program program(int rank) const;
};

namespace detail {

using namespace reef::schedule;

class PipelineStepWriter {
public:
  PipelineStepWriter(const PipelineStep& step, int rank) : step_(step), stage_(rank % step.stages) {
    program_.rank = rank;
    for (int b = 0; b < step.buckets; ++b) {
      weights_.push_back(add("weights", b, step_.message, Life::persistent));
      gradients_.push_back(add("gradients", b, step_.message, Life::reserved));
    }
    for (int r = 0; r < step.replicas; ++r) holders_.push_back(r * step.stages + stage_);
    for (int r = 0; r < step.ranks(); ++r) all_.push_back(r);
    for (int i = 0; i < step.slots; ++i) {
      for (Ring* ring : {&inputs_, &outputs_, &output_gradients_, &input_gradients_})
        ring->push_back(add("slot", i, step_.message, Life::round));
    }
  }

  Program write() {
    const int count = step_.micro_batches;
    const int ahead = std::min(step_.stages - stage_ - 1, count);
    for (int j = 0; j < ahead; ++j) forward(j);
    for (int j = ahead; j < count; ++j) {
      forward(j);
      backward(j - ahead);
    }
    for (int j = count - ahead; j < count; ++j) backward(j);
    for (int b = 0; b < step_.buckets; ++b) reduce(b);
    const StorageId norm = add("norm", -1, 8, Life::round);
    const StorageId norms = add("norms", -1, 8 * all_.size(), Life::round);
    program_.add("Norm", Lane::update).writes = {{norm, 0}};
    Instruction& gather = program_.add("AllGather", Lane::reduce, step_.buckets);
    gather.reads = {{norm, 0}};
    gather.writes = {{norms, 0}};
    exchange(gather, "all", all_, 8, 1U << 30);
    for (int b = 0; b < step_.buckets; ++b) update(b, norms);
    return std::move(program_);
  }

private:
  using Ring = std::vector<StorageId>;

  StorageId add(const char* name, int number, reef::Bytes bytes, Life life) {
    return program_.add_storage(name + std::to_string(number), bytes, Place::device, life);
  }
  Value in(const Ring& ring, int j) const {
    return {ring[static_cast<std::size_t>(j % step_.slots)], 0};
  }

  void transfer(const char* kind, Lane lane, int peer_stage, int edge, int j, Value value) {
    Instruction& i = program_.add(kind, lane, edge, j);
    const Message message{program_.rank - stage_ + peer_stage, step_.message + 64,
                          static_cast<std::uint32_t>(edge), 1};
    if (lane == Lane::send) {
      i.reads = {value};
      i.sends = {message};
    } else {
      i.writes = {value};
      i.receives = {message};
    }
    if (step_.posted) i.completion = Completion::posted;
  }

  void forward(int j) {
    const bool first = stage_ == 0;
    const bool last = stage_ + 1 == step_.stages;
    const StorageId input = first ? add("batch", j, 4096, Life::round) : in(inputs_, j).storage;
    if (first)
      program_.add("Batch", Lane::source, -1, j).writes = {{input, 0}};
    else
      transfer("Receive", Lane::receive, stage_ - 1, 2 * stage_ - 2, j, {input, 0});
    saved_.push_back(add("saved", j, 4 * step_.message, Life::round));
    Instruction& i = program_.add("Forward", Lane::compute, stage_, j);
    i.reads = {{input, 0}};
    for (const StorageId weights : weights_) i.reads.push_back({weights, 0});
    i.writes = {{saved_.back(), 0}, {add("work", j, 2 * step_.message, Life::round), 0}};
    if (!last) {
      i.writes.push_back(in(outputs_, j));
      transfer("Send", Lane::send, stage_ + 1, 2 * stage_, j, in(outputs_, j));
    }
  }

  void backward(int j) {
    const bool first = stage_ == 0;
    const bool last = stage_ + 1 == step_.stages;
    if (!last)
      transfer("ReceiveGradient", Lane::receive, stage_ + 1, 2 * stage_ + 1, j,
               in(output_gradients_, j));
    Instruction& i = program_.add("Backward", Lane::compute, stage_, j);
    i.reads = {{saved_[static_cast<std::size_t>(j)], 0}};
    if (!last) i.reads.push_back(in(output_gradients_, j));
    i.writes = {{add("work back", j, 2 * step_.message, Life::round), 0}};
    for (const StorageId weights : weights_) i.reads.push_back({weights, 0});
    for (const StorageId gradients : gradients_) {
      (j == 0 ? i.writes : i.accumulates).push_back({gradients, 0});
    }
    if (first) return;
    i.writes.push_back(in(input_gradients_, j));
    transfer("SendGradient", Lane::send, stage_ - 1, 2 * stage_ - 1, j, in(input_gradients_, j));
  }

  /// Of equal shards: what goes to a member is as much as what comes from it.
  void exchange(Instruction& i, const char* name, const std::vector<int>& members,
                reef::Bytes bytes, std::uint32_t channel) {
    i.collective = std::make_shared<const Collective>(Collective{reef::Group{name, members}, {}});
    for (const int member : members) {
      if (member == program_.rank) continue;
      i.sends.push_back({member, bytes, channel, 1});
      i.receives.push_back({member, bytes, channel, 1});
    }
  }

  [[nodiscard]] reef::Bytes shard() const {
    return step_.message / static_cast<reef::Bytes>(step_.replicas);
  }

  void reduce(int b) {
    const auto at = static_cast<std::size_t>(b);
    reduced_.push_back(add("reduced", b, shard(), Life::round));
    Instruction& i = program_.add("ReduceScatter", Lane::reduce, b);
    i.reads = {{gradients_[at], 0}};
    i.writes = {{reduced_[at], 0}};
    exchange(i, "holders", holders_, shard() + 64, (1U << 30) + 1);
  }

  void update(int b, StorageId norms) {
    const auto at = static_cast<std::size_t>(b);
    const StorageId updated = add("updated", b, shard(), Life::round);
    Instruction& i = program_.add("Update", Lane::update, b);
    i.reads = {{reduced_[at], 0}, {norms, 0}};
    i.writes = {{updated, 0}};
    Instruction& gather = program_.add("AllGather", Lane::reduce, b);
    gather.reads = {{updated, 0}};
    gather.writes = {{weights_[at], 1}};
    exchange(gather, "holders", holders_, shard() + 64, (1U << 30) + 1);
  }

  const PipelineStep& step_;
  int stage_;
  Program program_{};
  std::vector<StorageId> weights_{}, gradients_{}, saved_{}, reduced_{};
  Ring inputs_{}, outputs_{}, output_gradients_{}, input_gradients_{};
  std::vector<int> holders_{}, all_{};
};

}  // namespace detail

inline reef::schedule::Program PipelineStep::program(int rank) const {
  return detail::PipelineStepWriter(*this, rank).write();
}

}  // namespace reef_bench
