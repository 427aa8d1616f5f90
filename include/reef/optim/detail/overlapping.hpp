#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/update.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/shared_loop.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// Writes the programs of an optimizer whose rounds overlap. A round with two phases:
///
///     compute                                      reduce                            update
///     HandOver(b)           C = g~(t)
///     phase 1 at w v0:      g += g(t), Count    || ReduceScatter(b), Scalars,        Norms(b)
///                                                  Decide, GatherWeights(b)          Estimate(b)
///     Install(b)            w v1 = C
///     HandOver(b)           C = g~(t) + g(t)
///     phase 2 at w v1:      g = g~(t+1), Count  || ReduceScatter(b), Scalars,        Norms(b)
///                                                  Decide, GatherWeights(b)          Update(b)
///     Install(b)            w v2 = C
///
/// A round with one phase has phase 2 alone, at w v0. C is builder.comm_buffer: sums of gradients leave through it, and
/// weights come in. Nothing else of the compute lane touches it, so that the lanes run at once. Gradients are kept from
/// round to round: they are the pending gradient, and in phase 1 what is added to it, while the copy in C is on its
/// way. So are the counts of its micro-batches, of which HandCounts hands over a copy. Where the plan adapts, a phase
/// ends with a Repeat of one micro-batch more, until its last GatherWeights is complete; on a pipeline with one that
/// its stages share, of the phase's micro-batches once more.
///
///     prologue          a phase at w v0: g = g~(0)
///     warm_up           the kinds of a round one after the other: the phase, then its reduction and
///                       update
///     gather_committed  Publish(b): C = committed weights of the own shard; GatherWeights(b); to tied copies
///
/// What each reads, writes and accumulates into: HandOverView, OutgoingView of Estimate and Update,
/// run::CollectiveView, run::CopyView of Install, HandCounts and Publish.
class OverlappingStep {
public:
  OverlappingStep(run::StepBuilder& builder, int states)
      : builder_(builder),
        program_(builder.program),
        plan_(builder.plan),
        states_(states),
        own_shards_(plan_.element_bytes() < plan_.sum_bytes() || plan_.rounds_gradients()) {}

  /// What outlives a round.
  static void reserve(run::StepBuilder& builder, int states, bool weights_are_committed);

  static std::vector<StateRange> state(const run::StepBuilder& builder, int states,
                                       bool weights_are_committed);

  void add(const run::Pass& model, int phases);

private:
  static constexpr Bytes counts_bytes = ScalarLayout::counts * sizeof(double);
  /// Room for the gradients of bucket b, and for its weights.
  static Bytes comm_buffer_bytes(const run::StepBuilder& builder, std::size_t b);
  static std::string counts_name(int fold) {
    return fold == 0 ? "counts" : concat("counts of virtual rank ", fold);
  }

  void add_round(const run::Pass& model, int phases);

  void install_all(int version) {
    each_bucket([&](std::size_t b) { install(b, version); });
    run::add_tied_weights(builder_, version);
  }

  /// A phase, and if the plan adapts, micro-batches for as long as what has been sent out travels.
  void run_phase_beside(const run::Pass& model, run::AccumulationPhase phase);

  template <class F>
  void each_bucket(const F& f) const {
    for (const std::size_t b : builder_.stage_buckets()) f(b);
  }

  void run_phase(const run::Pass& model, run::AccumulationPhase phase);

  /// Parts of C, by bucket, and the shard of the sum: in C too, unless weights or gradients are narrower
  /// than sums. Then it has a place of its own: it has no room in C, or an update would overtake there
  /// what it still has to read.
  void name_storages();

  /// Gradients of that version go to C, and what is counted of them beside.
  void hand_over(int version);

  /// The sum over folds, each with the tied uses of its parameters. What is rounded, or encoded, goes to its
  /// owner as it would travel.
  void hand_over(std::size_t b, int version);

  /// The owner of a shard gets its sum over ranks; then all ranks come to a Verdict.
  void reduce();

  /// What the rule makes of the own shard, an Estimate or an Update, goes to all ranks.
  void send_out(std::string_view kind, std::size_t b, int version);

  void gather_committed();

  void publish(std::size_t b);

  void gather(std::size_t b, int version);

  void install(std::size_t b, int version);

  std::uint32_t channel() { return run::first_optimizer_channel + next_channel_++; }
  std::uint32_t scalars_channel() { return run::first_scalars_channel + next_scalars_++; }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  const run::StepPlan& plan_;
  int states_;
  bool own_shards_;                        ///< shards of sums have no place in C
  std::vector<run::StorageId> counts_;     ///< by fold of this process
  std::vector<run::Value> handed_counts_;  ///< as they were at the last HandOver
  std::vector<run::StorageId> arrived_;    ///< by bucket: the weights of C
  std::vector<run::StorageId> outgoing_;   ///< this rank's shard of them
  std::vector<run::StorageId> shards_;     ///< this rank's shard of the sum
  std::vector<run::StorageId> handed_;     ///< where gradients leave
  int arrived_uses_ = -1;  ///< the version of gradients that came from other stages
  std::uint32_t next_channel_ = 0;  ///< of what the holders of a stage exchange
  std::uint32_t next_scalars_ = 0;  ///< of what all ranks do
};

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/optim/detail/overlapping.ipp>
#endif
