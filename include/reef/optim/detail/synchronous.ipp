#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/detail/synchronous.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

REEF_INLINE void SynchronousStep::add(int states) {
  owned_ = gathered_ = builder_.reduced;
  const bool trains = builder_.trains() && !builder_.updates_within_the_step();
  const bool checks = plan_.waits_for_global_norm;
  if (trains && !checks) {
    add_decision(builder_, scalars_channel(), {}, {.norms = false, .losses = false});
  }
  const std::vector<std::size_t> held = trains ? builder_.stage_buckets() : std::vector<std::size_t>{};
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

REEF_INLINE StorageId SynchronousStep::shard_of(const std::string& name, StorageId whole, const run::Bucket& bucket,
                                                Bytes element) {
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<Bytes>(elements) * element;
  };
  return program_.add_part(name, whole, bytes(bucket.shard_begin(rank())),
                           bytes(bucket.shard_size(rank())));
}

REEF_INLINE void SynchronousStep::reduce_scatter(std::size_t b) {
  const run::Bucket& bucket = plan_.buckets[b];
  if (bucket.alone()) return;
  owned_[b] = shard_of(concat("gradient shard ", b), gathered_[b], bucket, plan_.sum_bytes());
  Instruction& scatter = program_.add(kinds::reduce_scatter, Lane::reduce, static_cast<int>(b));
  scatter.traffic = schedule::Traffic::gradient;
  run::CollectiveView(scatter, {gathered_[b], 0}, {owned_[b], 0});
  run::add_reduce_scatter_messages(scatter, builder_, plan_.sum_bytes(), channel(),
                                   bucket.group, bucket.shards);
}

REEF_INLINE void SynchronousStep::all_gather_gradients(std::size_t b) {
  all_gather(kinds::gather_gradients, schedule::Traffic::gradient, b, {owned_[b], 0},
             {gathered_[b], 0}, plan_.sum_bytes());
  owned_[b] = gathered_[b];  // the shard is a part of what is whole again
}

REEF_INLINE void SynchronousStep::update(std::size_t b, int states) {
  const run::Bucket& bucket = plan_.buckets[b];
  const StorageId weights = builder_.weights[b];
  const StorageId target =
      sharded_ && !bucket.alone()
          ? shard_of(concat("weight shard ", b), weights, bucket, plan_.element_bytes())
          : weights;
  add_update(builder_, b, {sharded_ ? owned_[b] : gathered_[b], 0}, target, states);
  updated_ = target;
}

REEF_INLINE void SynchronousStep::all_gather(std::string_view kind, schedule::Traffic traffic, std::size_t b,
                                             run::Value shard, run::Value whole, Bytes element) {
  const run::Bucket& bucket = plan_.buckets[b];
  if (bucket.alone() && !run::stands_for_encoded(plan_, traffic, b)) return;
  Instruction& gather = program_.add(kind, Lane::reduce, static_cast<int>(b));
  gather.traffic = traffic;
  run::CollectiveView(gather, shard, whole);
  run::add_all_gather_messages(gather, builder_, element, channel(), bucket.group,
                               bucket.shards);
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
