#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/update.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::inline v0::optim::detail {

using run::Instruction;
using run::Lane;
using run::Place;
using run::StorageId;

/// Writes the step of an optimizer that is done when all ranks have the same new weights.
///
///     for each bucket, last first:   ReduceScatter(b)  [GatherGradients(b) unless sharded]
///     for each bucket:               Norms(b)
///     Scalars  Decide
///     for each bucket:               Update(b)  [GatherWeights(b) if sharded]
///
/// The reduction of a bucket starts when its gradients are folded, while the backward of the segments
/// before it still runs. An evaluation has Scalars and Decide alone. A plan that does not check has
///
///     Scalars  Decide                what weights come to, without losses
///     for each bucket, last first:   ReduceScatter(b)  [GatherGradients(b)]  Update(b)  [GatherWeights(b)]
///     Scalars  Decide                the losses
///
/// Where the pipeline updates within the step, those last two are all that comes behind it.
///
/// ReduceScatter, GatherGradients and GatherWeights are read and written as run::CollectiveView says. Norms, Scalars
/// and Decide are add_decision's, Update is add_update's.
class SynchronousStep {
public:
  SynchronousStep(run::StepBuilder& builder, bool sharded)
      : builder_(builder), program_(builder.program), plan_(builder.plan), sharded_(sharded) {}

  void add(int states) {
    owned_ = gathered_ = builder_.reduced;
    const bool trains = builder_.trains() && !builder_.updates_within_the_step();
    const bool checks = plan_.waits_for_global_norm;
    if (trains && !checks) {
      add_decision(builder_, scalars_channel(), {}, {.norms = false, .losses = false});
    }
    const std::vector<std::size_t> held = trains ? builder_.held() : std::vector<std::size_t>{};
    for (auto b = held.rbegin(); b != held.rend(); ++b) {
      reduce_scatter(*b);
      if (!sharded_) all_gather_gradients(*b);
      if (!checks) renew(*b, states);
    }
    add_decision(builder_, scalars_channel(), owned_, {.norms = checks});
    for (const std::size_t b : held) {
      if (checks) renew(b, states);
    }
  }

private:
  [[nodiscard]] int rank() const { return builder_.rank(); }
  StorageId shard_of(const std::string& name, StorageId whole, const run::Bucket& bucket,
                     Bytes element) {
    const auto bytes = [&](std::int64_t elements) {
      return static_cast<Bytes>(elements) * element;
    };
    return program_.add_part(name, whole, bytes(bucket.shard_begin(rank())),
                             bytes(bucket.shard_size(rank())));
  }

  /// The owner of a shard folds the ranks' chunks of it, in place.
  void reduce_scatter(std::size_t b) {
    const run::Bucket& bucket = plan_.buckets[b];
    if (bucket.alone()) return;
    owned_[b] = shard_of(concat("gradient shard ", b), gathered_[b], bucket, plan_.sum_bytes());
    Instruction& scatter = program_.add(kinds::reduce_scatter, Lane::reduce, static_cast<int>(b));
    scatter.traffic = schedule::Traffic::gradient;
    run::CollectiveView(scatter, {gathered_[b], 0}, {owned_[b], 0});
    run::add_reduce_scatter_messages(scatter, builder_, plan_.sum_bytes(), channel(),
                                     bucket.group, bucket.shards);
  }

  void all_gather_gradients(std::size_t b) {
    all_gather(kinds::gather_gradients, schedule::Traffic::gradient, b, {owned_[b], 0},
               {gathered_[b], 0}, plan_.sum_bytes());
    owned_[b] = gathered_[b];  // the shard is a part of what is whole again
  }

  void renew(std::size_t b, int states) {
    update(b, states);
    if (sharded_) all_gather_weights(b);
  }

  void update(std::size_t b, int states) {
    const run::Bucket& bucket = plan_.buckets[b];
    const StorageId weights = builder_.weights[b];
    const StorageId target =
        sharded_ && !bucket.alone()
            ? shard_of(concat("weight shard ", b), weights, bucket, plan_.element_bytes())
            : weights;
    add_update(builder_, b, {sharded_ ? owned_[b] : gathered_[b], 0}, target, states);
    updated_ = target;
  }

  void all_gather_weights(std::size_t b) {
    all_gather(kinds::gather_weights, schedule::Traffic::parameter, b, {updated_, 1},
               {builder_.weights[b], 1}, plan_.element_bytes());
  }

  void all_gather(std::string_view kind, schedule::Traffic traffic, std::size_t b, run::Value shard,
                  run::Value whole, Bytes element) {
    const run::Bucket& bucket = plan_.buckets[b];
    if (bucket.alone() && !run::stands_for_encoded(plan_, traffic, b)) return;
    Instruction& gather = program_.add(kind, Lane::reduce, static_cast<int>(b));
    gather.traffic = traffic;
    run::CollectiveView(gather, shard, whole);
    run::add_all_gather_messages(gather, builder_, element, channel(), bucket.group,
                                 bucket.shards);
  }

  std::uint32_t channel() { return run::first_optimizer_channel + next_channel_++; }
  std::uint32_t scalars_channel() { return run::first_scalars_channel + next_scalars_++; }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  const run::StepPlan& plan_;
  bool sharded_;
  std::vector<StorageId> gathered_;  ///< by bucket: the whole gradient, of this process or of all
  std::vector<StorageId> owned_;  ///< by bucket: where this rank's shard of the reduced gradient is
  StorageId updated_ = run::no_storage;
  std::uint32_t next_channel_ = 0;  ///< of what the holders of a stage exchange
  std::uint32_t next_scalars_ = 0;  ///< of what all ranks do
};

}  // namespace reef::inline v0::optim::detail
