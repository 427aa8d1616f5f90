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

namespace reef {
inline namespace v0 {
namespace optim::detail {

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

  void add(int states);

private:
  [[nodiscard]] int rank() const { return builder_.rank(); }
  StorageId shard_of(const std::string& name, StorageId whole, const run::Bucket& bucket,
                     Bytes element);

  /// The owner of a shard folds the ranks' chunks of it, in place.
  void reduce_scatter(std::size_t b);

  void all_gather_gradients(std::size_t b);

  void renew(std::size_t b, int states) {
    update(b, states);
    if (sharded_) all_gather_weights(b);
  }

  void update(std::size_t b, int states);

  void all_gather_weights(std::size_t b) {
    all_gather(kinds::gather_weights, schedule::Traffic::parameter, b, {updated_, 1},
               {builder_.weights[b], 1}, plan_.element_bytes());
  }

  void all_gather(std::string_view kind, schedule::Traffic traffic, std::size_t b, run::Value shard,
                  run::Value whole, Bytes element);

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

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/optim/detail/synchronous.ipp>
#endif
