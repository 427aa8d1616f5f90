#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

using schedule::Instruction;
using schedule::Lane;
using schedule::Life;
using schedule::no_storage;
using schedule::Place;
using schedule::StorageId;
using schedule::Value;

/// The purpose of a program.
///
/// | training         | a step; several such programs may take turns from step to step      |
/// | evaluation       | forwards, and the mean of their losses                              |
/// | diagnosis        | forwards and backwards of a step again, checking each gradient      |
/// | prologue         | computes the gradient with which the first overlapping round begins |
/// | warm_up          | a step without overlap, of an optimizer whose rounds overlap later  |
/// | gather_committed | brings the committed weights from their owners to all ranks         |
enum class Purpose : std::uint8_t {
  training,
  evaluation,
  diagnosis,
  prologue,
  warm_up,
  gather_committed
};

inline constexpr std::size_t purpose_count = 6;

/// An accumulation phase of a step, in short a phase: the micro-batches that a rank runs with weights of one
/// version. Most steps have one phase, a step of ACCO has two.
struct AccumulationPhase {
  int weights = 0;         ///< the version of the weights that is read
  int gradients = 0;       ///< the version of the gradients that is written
  bool continues = false;  ///< true if gradients are added to the sums of an earlier phase
  bool one_micro_batch = false;  ///< true for the body of a Repeat on one stage: each iteration runs one micro-batch
  int before = 0;          ///< the number of phases whose samples come before those of this phase
};

/// A rank's program under construction, with the storages that all policies share by name.
///
/// | weights[b]       | the parameters of bucket b, persistent: version 0, after the update 1    |
/// | tied_weights[p]  | parameter p, which another stage holds; versions as in weights           |
/// | frozen[p]        | the frozen parameter p, if a segment of the stage uses it: version 0     |
/// | accumulators     | the sums of gradients: one set for all folds, or one for each fold; the  |
/// |                  | type of elements is plan.gradient                                        |
/// | micro_batches[j] | the storages of one micro-batch                                          |
/// | reduced[b]       | this process's final gradient of bucket b: the accumulator's, or the sum |
/// |                  | over the ranks that the process stands for                               |
/// | comm_buffer[b]   | the buffer of overlapping rounds: sums of gradients are sent from it,    |
/// |                  | and weights arrive at its beginning                                      |
/// | tied_buffer[p]   | the buffer in which new weights for tied_weights[p] arrive meanwhile     |
///
/// Only the `reserve` of an optimizer adds storages that outlive a round, and it adds them for every purpose, so that
/// they have the same addresses in all programs of a trainer. Then the optimizer composes the step: it sets `phase` and
/// lets the passes of model, pipeline and swap write the micro-batches of a phase, once for each phase of the step.
/// Compressors then rewrite the whole program.
///
/// \code
/// // given: const run::StepPlan& plan
/// run::StepBuilder builder(plan, 0, run::Purpose::training);
/// builder.program.add("Mine", run::Lane::compute).reads = {{builder.weights[0], 0}};
/// \endcode
struct StepBuilder {
  /// The gradients that one fold over micro-batches sums: the fold of a rank, or of a virtual rank.
  struct Accumulators {
    std::vector<StorageId> buckets;  ///< the storage of each bucket's sum
    std::vector<StorageId> uses;     ///< by use: that of a tied parameter's use beyond the first; otherwise no_storage
  };

  struct MicroBatch {
    int number = 0;                    ///< the number among the micro-batches of all ranks in the step
    StorageId batch = no_storage;      ///< the region of the model's inputs
    std::vector<StorageId> tensors;    ///< by tensor: its storage, if it crosses a boundary of segments
    std::vector<StorageId> gradients;  ///< by tensor: its gradient, if it crosses a boundary
    std::vector<StorageId>
        recomputed;                    ///< by boundary tensor: the storage to which a Recompute writes it
    std::vector<StorageId> saved;      ///< by segment: the tensors that its forward saves for its backward
    std::vector<StorageId> forward_workspace;   ///< by segment: the workspace of its forward
    std::vector<StorageId> recompute_workspace;  ///< by segment: the workspace of its recomputation
    std::vector<StorageId> backward_workspace;  ///< by segment: the workspace of its backward
    std::vector<StorageId> input_workspace;     ///< by segment: the workspace of the input half of its backward
    std::vector<StorageId> weight_workspace;    ///< by segment: the workspace of the weight half of its backward
    std::vector<StorageId> pending;             ///< by segment: data that its input half hands to its weight half
    std::map<int, std::vector<Value>> rounded;  ///< by segment: the gradients before they are rounded
    StorageId loss = no_storage;
    StorageId loss_weight = no_storage;
  };

  /// An update, within a step, of the weights that the stage holds (WeightVersions).
  struct Update {
    int first = 0;                 ///< the first of the program's micro-batches whose gradients the update uses
    int count = 0;                 ///< the number of these; the sums are `reduced`, of version phase.gradients
    std::vector<Value> weights{};  ///< by bucket: the weights before the update
    std::vector<Value> target{};   ///< by bucket: the weights after it, in the same or another storage
  };

  const StepPlan& plan;
  Purpose purpose;
  int variant = 0;  ///< the number of this one among the training programs
  schedule::Program program{};
  AccumulationPhase phase{};
  std::vector<StorageId> weights{};
  std::vector<StorageId> tied_weights{};  ///< by parameter: its storage if this stage uses it and another stage owns it
  std::vector<StorageId> frozen{};        ///< by parameter: its storage, if it is frozen and this stage uses it
  std::vector<int> tied_versions{};       ///< the versions of tied_weights, if they differ from phase.weights
  std::vector<Accumulators> accumulators{};
  std::vector<StorageId> reduced{};
  std::vector<StorageId> comm_buffer{};
  /// By parameter: its storage, if the optimizer trains ahead of its committed weights.
  std::vector<StorageId> tied_buffer{};
  std::vector<MicroBatch> micro_batches{};
  StorageId verdict = no_storage;  ///< the storage of the step's Verdict, which the optimizer writes
  bool sends_tied_weights = false;  ///< true if the optimizer itself sends tied weights
  /// A function that writes the instructions of an Update: set by an optimizer that can update within a step, called by
  /// a pipeline that does so.
  std::function<void(StepBuilder&, const Update&)> update{};

  /// Reserves weights and gradients of this rank's stage. Passes add the other storages.
  StepBuilder(const StepPlan& step_plan, int rank, Purpose step_purpose, int step_variant = 0);
  StepBuilder(StepBuilder&&);
  StepBuilder(const StepBuilder&) = delete;
  ~StepBuilder();

  /// Makes gradients keep their values from round to round, in accumulators of each fold. Called by an optimizer's
  /// `reserve`. Leaves out gradients that come from other stages, which keep them there.
  void keep_gradients();
  [[nodiscard]] bool keeps_gradients() const { return keeps_gradients_; }

  [[nodiscard]] int rank() const { return program.rank; }

  /// Returns the stage of this rank; segments() and stage_buckets() return its segments and the buckets that it holds,
  /// ascending. Storages of other segments and buckets are no_storage here.
  [[nodiscard]] int stage() const { return stage_; }
  [[nodiscard]] const std::vector<int>& segments() const& { return segments_; }
  [[nodiscard]] std::vector<int> segments() const&& { return segments_; }
  [[nodiscard]] const std::vector<std::size_t>& stage_buckets() const& { return stage_buckets_; }
  [[nodiscard]] std::vector<std::size_t> stage_buckets() const&& { return stage_buckets_; }
  /// Returns true if this rank computes losses. Other ranks do not count their micro-batches.
  [[nodiscard]] bool reports_loss() const { return stage_ == plan.loss_stage(); }

  /// Returns true if the operator that has this use of a parameter is on this stage.
  [[nodiscard]] bool runs_use(int use) const { return plan.stage_of_use(use) == stage_; }

  /// Returns true if weights change between micro-batches, as only training programs of some pipelines do.
  [[nodiscard]] bool updates_within_the_step() const {
    return purpose == Purpose::training && plan.weight_versions.within_a_step();
  }
  /// Returns true if the program has backwards.
  [[nodiscard]] bool trains() const { return purpose != Purpose::evaluation; }
  /// Returns the bytes of bucket b's gradients as computed; gradient_bytes() returns those as stored and sent.
  [[nodiscard]] Bytes sum_bytes(std::size_t b) const {
    return static_cast<Bytes>(plan.buckets[b].size()) * plan.sum_bytes();
  }
  [[nodiscard]] Bytes gradient_bytes(std::size_t b) const {
    return static_cast<Bytes>(plan.buckets[b].size()) * plan.gradient_bytes();
  }

  [[nodiscard]] const Accumulators& accumulators_of(int fold) const& {
    return accumulators[accumulators.size() > 1 ? static_cast<std::size_t>(fold) : 0];
  }
  void accumulators_of(int) const&& = delete;

  /// Returns the number of micro-batches of a replica, or of a virtual rank, in the phase.
  [[nodiscard]] int micro_batches_of(int fold) const {
    return phase.one_micro_batch ? 1 : plan.micro_batches[static_cast<std::size_t>(fold)];
  }

  /// Returns the buckets of this stage whose weights a segment of the stage reads, ascending.
  [[nodiscard]] std::vector<std::size_t> buckets_of(const graph::Segment& segment) const;

  /// Returns the weights that a segment reads: storages of its buckets, then those of tied parameters that other stages
  /// hold, ascending, then of frozen ones.
  [[nodiscard]] std::vector<Value> weights_of(const graph::Segment& segment) const;

  /// Returns the parameters that a segment uses and another stage holds, ascending, each once.
  [[nodiscard]] std::vector<int> tied_of(const graph::Segment& segment) const;

  /// Returns the frozen parameters that a segment of this stage uses, ascending, each once.
  [[nodiscard]] std::vector<int> frozen_of(const graph::Segment& segment) const;

  /// Returns the gradients to which a segment's backward adds: that of its bucket, then that of each of its uses of
  /// tied parameters beyond the first.
  [[nodiscard]] std::vector<Value> gradients_of(int segment, int fold = 0) const;

  /// Returns the number of values in weights_of, for a segment of this stage; gradients_made_by() returns that in
  /// gradients_of. Both are known from construction on.
  [[nodiscard]] std::size_t weights_read_by(int segment) const {
    return counts_[static_cast<std::size_t>(segment)].weights;
  }
  [[nodiscard]] std::size_t gradients_made_by(int segment) const {
    return counts_[static_cast<std::size_t>(segment)].gradients;
  }

  /// Returns the uses, beyond the first, of the tied parameters of bucket b, in the order in which their gradients are
  /// added to that of the first use.
  [[nodiscard]] std::vector<int> tied_uses(std::size_t b) const;

  /// Returns an object that a pass keeps from phase to phase while it writes the program: one object for each type
  /// State, constructed at the first call.
  template <class State>
  [[nodiscard]] State& scratch() {
    static char key = 0;  // not const: a linker may give constants that are equal one address
    std::shared_ptr<void>& state = scratch_[&key];
    if (!state) state = std::make_shared<State>();
    return *static_cast<State*>(state.get());
  }

private:
  /// The numbers of a segment's operands.
  struct Counts {
    std::size_t weights = 0;
    std::size_t gradients = 0;
  };

  void add_accumulators(const std::string& whose, Life life);
  void add_frozen();

  int stage_;
  std::vector<int> segments_;
  std::vector<std::size_t> stage_buckets_;
  std::vector<Counts> counts_{};  ///< by segment: the numbers of its operands; zero for segments of other stages
  bool keeps_gradients_ = false;
  std::map<const void*, std::shared_ptr<void>> scratch_{};  ///< the objects of scratch(), by their type's key
};

/// A function that writes a part of a program.
using Pass = std::function<void(StepBuilder&)>;

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/step_builder.ipp>
#endif
