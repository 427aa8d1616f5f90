#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/comm/shards.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::inline v0::optim::detail {

using run::Instruction;
using run::Lane;
using run::Life;
using run::Place;
using run::StorageId;

/// What ranks tell each other once a step, in doubles, rank after rank:
///
///     (total loss weight, sum of weight * loss) of each fold | sums of squares, bucket after bucket
///
/// Read rank by rank and bucket by bucket the numbers come in one order, whatever P is.
struct ScalarLayout {
  int folds_per_rank = 1;
  std::vector<std::int64_t> ranks{0};            ///< P + 1 offsets
  std::vector<std::vector<std::int64_t>> norms;  ///< by rank, by bucket: offset of the first sum

  static std::int64_t blocks(std::int64_t elements) {
    return static_cast<std::int64_t>(divide_up(static_cast<std::uint64_t>(elements),
                                               static_cast<std::uint64_t>(run::norm_block)));
  }

  ScalarLayout(const run::StepPlan& plan, run::Purpose purpose)
      : folds_per_rank(plan.virtual_ranks) {
    std::int64_t end = 0;
    for (int rank = 0; rank < plan.ranks; ++rank) {
      end += 2 * folds_per_rank;
      norms.emplace_back();
      if (purpose == run::Purpose::training) {
        for (const run::Bucket& bucket : plan.buckets) {
          norms.back().push_back(end);
          end += blocks(bucket.shard_size(rank));
        }
      }
      ranks.push_back(end);
    }
  }

  [[nodiscard]] std::int64_t size() const { return ranks.back(); }
};

/// Channels of the messages that optimizers exchange; pipelines use those below.
inline constexpr std::uint32_t first_channel = 1U << 30;

/// A direct exchange as messages: to each peer `sent(peer)` elements, from each `received(peer)`.
template <class Sent, class Received>
void add_messages(Instruction& instruction, int ranks, int rank, Bytes element,
                  std::uint32_t channel, const Sent& sent, const Received& received) {
  const auto add = [&](std::vector<schedule::Message>& to, int peer, std::int64_t elements) {
    const comm::Cost cost = comm::detail::shard_cost(elements, element, comm::default_piece_bytes);
    if (cost.messages > 0) to.push_back({peer, cost.bytes, channel, cost.messages});
  };
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    add(instruction.sends, peer, sent(peer));
    add(instruction.receives, peer, received(peer));
  }
}

/// Writes the step of an optimizer that is done when all ranks have the same new weights.
///
///     for each bucket, last first:   ReduceScatter(b)  [GatherGradients(b) unless sharded]
///     for each bucket:               Norms(b)
///     Scalars  Decide
///     for each bucket:               Update(b)  [GatherWeights(b) if sharded]
///
/// The reduction of a bucket starts when its gradients are folded, while the backward of the segments
/// before it still runs. An evaluation has Scalars and Decide alone.
///
/// Code finds its operands by their place: ReduceScatter, GatherGradients and GatherWeights read the
/// source and write the target; Norms reads gradients and writes sums; Update reads (gradient,
/// verdict, weights), writes the weights and accumulates into the states.
class SynchronousStep {
public:
  SynchronousStep(run::StepBuilder& builder, bool sharded)
      : builder_(builder), program_(builder.program), plan_(builder.plan), sharded_(sharded) {}

  /// The rule's state: of this rank's shards, or of everything.
  static void reserve(run::StepBuilder& builder, int states, bool sharded) {
    for (std::size_t b = 0; b < builder.plan.buckets.size(); ++b) {
      const run::Bucket& bucket = builder.plan.buckets[b];
      const std::int64_t elements = sharded ? bucket.shard_size(builder.rank()) : bucket.size();
      for (int state = 0; state < states; ++state) {
        builder.program.add_storage(state_name(state, b),
                                    static_cast<Bytes>(elements) * builder.plan.element_bytes(),
                                    Place::device, Life::persistent);
      }
    }
  }

  /// Where the rule's state lies, for checkpoints.
  static std::vector<StateRange> state(const run::StepBuilder& builder, int states, bool sharded) {
    std::vector<StateRange> ranges;
    for (int state = 0; state < states; ++state) {
      for (std::size_t b = 0; b < builder.plan.buckets.size(); ++b) {
        const run::Bucket& bucket = builder.plan.buckets[b];
        const auto rank = static_cast<std::size_t>(builder.rank());
        ranges.push_back({find(builder.program, state_name(state, b)), concat("state.", state),
                          bucket.begin + (sharded ? bucket.shards[rank] : 0),
                          sharded ? bucket.shard_size(builder.rank()) : bucket.size()});
      }
    }
    return ranges;
  }

  static std::string state_name(int state, std::size_t bucket) {
    return concat("state ", state, " of weights ", bucket);
  }

  /// The storage of that name. Throws ScheduleError when there is none.
  static StorageId find(const schedule::Program& program, const std::string& name) {
    for (std::size_t id = 0; id < program.storages.size(); ++id) {
      if (program.storages[id].name == name) return static_cast<StorageId>(id);
    }
    throw ScheduleError("reef::optim: no storage '", name, "' was reserved.");
  }

  void add(int states) {
    owned_ = gathered_ = builder_.reduced;
    const bool trains = builder_.purpose == run::Purpose::training;
    for (std::size_t b = buckets(); trains && b-- > 0;) {
      reduce_scatter(b);
      if (!sharded_) all_gather_gradients(b);
    }
    for (std::size_t b = 0; trains && b < buckets(); ++b) norms(b);
    scalars();
    decide();
    for (std::size_t b = 0; trains && b < buckets(); ++b) {
      update(b, states);
      if (sharded_) all_gather_weights(b);
    }
  }

private:
  [[nodiscard]] int rank() const { return builder_.rank(); }
  [[nodiscard]] Bytes bytes(std::int64_t elements) const {
    return static_cast<Bytes>(elements) * plan_.element_bytes();
  }

  StorageId shard_of(const std::string& name, StorageId whole, const run::Bucket& bucket) {
    return program_.add_part(name, whole, bytes(bucket.shards[static_cast<std::size_t>(rank())]),
                             bytes(bucket.shard_size(rank())));
  }

  [[nodiscard]] std::size_t buckets() const { return plan_.buckets.size(); }

  /// The owner of a shard folds the ranks' chunks of it, in place.
  void reduce_scatter(std::size_t b) {
    if (plan_.ranks == 1) return;
    const run::Bucket& bucket = plan_.buckets[b];
    owned_[b] = shard_of(concat("gradient shard ", b), gathered_[b], bucket);
    Instruction& scatter = program_.add("ReduceScatter", Lane::reduce, static_cast<int>(b));
    scatter.reads = {{gathered_[b], 0}};
    scatter.writes = {{owned_[b], 0}};
    add_messages(
        scatter, plan_.ranks, rank(), plan_.element_bytes(), channel(),
        [&](int peer) { return bucket.shard_size(peer); },
        [&](int /*peer*/) { return bucket.shard_size(rank()); });
  }

  void all_gather_gradients(std::size_t b) {
    all_gather("GatherGradients", b, {owned_[b], 0}, {gathered_[b], 0});
    owned_[b] = gathered_[b];  // the shard is a part of what is whole again
  }

  /// Sums of squares of this rank's shard, block by block.
  void norms(std::size_t b) {
    const std::int64_t elements = plan_.buckets[b].shard_size(rank());
    const auto sums = static_cast<Bytes>(ScalarLayout::blocks(elements));
    norms_.push_back(
        program_.add_storage(concat("sums of squares ", b), sums * sizeof(double), Place::device));
    Instruction& instruction = program_.add("Norms", Lane::compute, static_cast<int>(b));
    instruction.reads = {{owned_[b], 0}};
    instruction.writes = {{norms_.back(), 0}};
    instruction.cost.bytes = bytes(elements);
  }

  /// All ranks tell each other their losses, weights and sums.
  void scalars() {
    const ScalarLayout layout(plan_, builder_.purpose);
    scalars_ = program_.add_storage("scalars", static_cast<Bytes>(layout.size()) * sizeof(double),
                                    Place::host);
    Instruction& gather = program_.add("Scalars", Lane::reduce);
    for (const auto& storages : builder_.micro_batches) gather.reads.push_back({storages.loss, 0});
    for (const auto& storages : builder_.micro_batches)
      gather.reads.push_back({storages.loss_weight, 0});
    for (const StorageId sums : norms_) gather.reads.push_back({sums, 0});
    gather.writes = {{scalars_, 0}};
    const auto size = [&](int r) {
      const auto at = static_cast<std::size_t>(r);
      return layout.ranks[at + 1] - layout.ranks[at];
    };
    add_messages(
        gather, plan_.ranks, rank(), sizeof(double), channel(),
        [&](int /*peer*/) { return size(rank()); }, size);
  }

  void decide() {
    builder_.verdict = program_.add_storage("verdict", sizeof(Verdict), Place::host);
    Instruction& decision = program_.add("Decide", Lane::reduce);
    decision.reads = {{scalars_, 0}};
    decision.writes = {{builder_.verdict, 0}};
  }

  void update(std::size_t b, int states) {
    const run::Bucket& bucket = plan_.buckets[b];
    const StorageId weights = builder_.weights[b];
    const StorageId target = sharded_ && plan_.ranks > 1
                                 ? shard_of(concat("weight shard ", b), weights, bucket)
                                 : weights;
    Instruction& instruction = program_.add("Update", Lane::compute, static_cast<int>(b));
    instruction.reads = {
        {sharded_ ? owned_[b] : gathered_[b], 0}, {builder_.verdict, 0}, {weights, 0}};
    instruction.writes = {{target, 1}};
    for (int state = 0; state < states; ++state) {
      instruction.accumulates.push_back({find(program_, state_name(state, b)), 0});
    }
    const std::int64_t elements = sharded_ ? bucket.shard_size(rank()) : bucket.size();
    instruction.cost.bytes = bytes(elements) * static_cast<Bytes>(3 + 2 * states);
    updated_ = target;
  }

  void all_gather_weights(std::size_t b) {
    all_gather("GatherWeights", b, {updated_, 1}, {builder_.weights[b], 1});
  }

  void all_gather(const char* kind, std::size_t b, run::Value shard, run::Value whole) {
    if (plan_.ranks == 1) return;
    const run::Bucket& bucket = plan_.buckets[b];
    Instruction& gather = program_.add(kind, Lane::reduce, static_cast<int>(b));
    gather.reads = {shard};
    gather.writes = {whole};
    add_messages(
        gather, plan_.ranks, rank(), plan_.element_bytes(), channel(),
        [&](int /*peer*/) { return bucket.shard_size(rank()); },
        [&](int peer) { return bucket.shard_size(peer); });
  }

  std::uint32_t channel() { return first_channel + next_channel_++; }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  const run::StepPlan& plan_;
  bool sharded_;
  std::vector<StorageId> gathered_;  ///< by bucket: the whole gradient, of this process or of all
  std::vector<StorageId> owned_;  ///< by bucket: where this rank's shard of the reduced gradient is
  std::vector<StorageId> norms_;
  StorageId scalars_ = run::no_storage;
  StorageId updated_ = run::no_storage;
  std::uint32_t next_channel_ = 0;
};

}  // namespace reef::inline v0::optim::detail
