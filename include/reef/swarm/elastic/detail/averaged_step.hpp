#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <reef/optim/decision.hpp>
#include <reef/optim/own_decision.hpp>
#include <reef/optim/update.hpp>
#include <reef/run/operands.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/swarm/elastic/kinds.hpp>

namespace reef {
inline namespace v0 {
namespace swarm::detail {

/// The operands of `Clear(b)`, which sets sums to zero before a round: of bucket b, or, of -1, the counts.
///
///     writes   the gradients of the bucket and of its parameters' further uses; or the counts
template <class Instr>
struct ClearView {
  run::PartOf<Instr> sums;

  ClearView(const run::StepBuilder& builder, Instr& clear, run::Lists lists = run::Lists::found) {
    const bool counts = clear.index < 0;
    run::Layout layout(clear, lists);
    sums = layout.writes(counts ? 1 : 1 + builder.tied_uses(static_cast<std::size_t>(clear.index)).size());
  }
};

/// The operands of `Offer` and `Result`.
///
///     reads    of an Offer: the contribution, bucket by bucket; counts
///     writes   of a Result: the sum over contributors, bucket by bucket, where the contribution lies; RoundScalars
template <class Instr>
struct RoundView {
  run::PartOf<Instr> contribution, counts, sum, scalars;

  RoundView(const run::StepBuilder& builder, Instr& instruction, run::Lists lists = run::Lists::found) {
    const bool ends = instruction.kind == kinds::result;
    const std::size_t buckets = builder.stage_buckets().size();
    run::Layout layout(instruction, lists);
    contribution = layout.reads(ends ? 0 : buckets);
    counts = layout.reads(1);
    sum = layout.writes(ends ? buckets : 0);
    scalars = layout.writes(ends ? 1 : 0);
  }
};

/// The operands of `DecideRound`.
///
///     reads    RoundScalars; sums of squares of all buckets, if the plan waits for a norm
///     writes   Verdict
template <class Instr>
struct DecideRoundView {
  run::PartOf<Instr> scalars, sums, verdict;

  DecideRoundView(const run::StepBuilder& builder, Instr& decide, run::Lists lists = run::Lists::found) {
    run::Layout layout(decide, lists);
    scalars = layout.reads(1);
    sums = layout.reads(builder.plan.waits_for_global_norm ? builder.stage_buckets().size() : 0);
    verdict = layout.writes(1);
  }
};

/// Writes the step of a peer that averages gradients with others.
///
///     source        BeginRound
///     compute       Clear(-1)  for each bucket:  Clear(b)                 sums and counts are zero
///     while BeginRound's code has a micro-batch:
///       source      Batch
///       compute     Forward(0..S-1)  Backward(S-1..0)  Count
///     compute       for each bucket:  Contribute(b)                       with the gradients of tied uses
///     reduce        Offer  Result                                         the sum takes the contribution's place
///     compute       for each bucket:  OwnNorms(b)                         of the result
///     reduce        DecideRound
///     compute       for each bucket:  Update(b)
///
/// Clear, Contribute, OwnNorms and Update of buckets in host memory run on the update lane. An evaluation is
/// the model's phase and add_decision's.
class AveragedStep {
public:
  AveragedStep(run::StepBuilder& builder, int states)
      : builder_(builder), program_(builder.program), plan_(builder.plan), states_(states) {}

  void add(const run::Pass& model);

private:
  /// A storage of all trained weights' sums, and its part for each bucket.
  [[nodiscard]] std::vector<run::StorageId> flat(const std::string& name);
  void clear();
  void accumulate(const run::Pass& model);
  void contribute();
  void exchange();
  void decide();

  [[nodiscard]] run::Lane lane() const {
    return plan_.persistent_place == run::Place::host ? run::Lane::update : run::Lane::compute;
  }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  const run::StepPlan& plan_;
  int states_;
  run::Value counts_{};
  run::Value scalars_{};
  std::vector<run::StorageId> sum_{};  ///< by bucket: the contribution, then the result
};

}  // namespace swarm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/elastic/detail/averaged_step.ipp>
#endif
