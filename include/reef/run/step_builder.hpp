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
/// | training         | a step: a round of programs that follow each other                  |
/// | evaluation       | forwards, and the mean of their losses                              |
/// | diagnosis        | the model's part of a step once more, with a look at each gradient  |
/// | prologue         | takes the gradient that the first of overlapping rounds begins with |
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

/// An accumulation phase of a step, in short a phase: the micro-batches of a rank at weights of one
/// version. Most steps have one, a step of ACCO two. A stage is a pipeline's, and something else.
struct AccumulationPhase {
  int weights = 0;         ///< version of the weights that is read
  int gradients = 0;       ///< version of the gradients that is written
  bool continues = false;  ///< true if gradients are added to those that are there
  bool one_micro_batch = false;  ///< true for the body of a Repeat, with one stage: one more micro-batch in each iteration
  int before = 0;          ///< number of phases whose samples come before those of this phase
};

/// A rank's program under construction, with the storages that the axes agree on by name.
///
/// | weights[b]       | the parameters of bucket b, persistent: version 0, after the update 1    |
/// | tied_weights[p]  | parameter p, which another stage holds; versions as of weights           |
/// | frozen[p]        | the frozen parameter p, if a segment of the stage uses it: version 0     |
/// | accumulators     | what gradients are summed in: one for all folds, or one that each keeps; |
/// |                  | of plan.gradient                                                         |
/// | micro_batches[j] | what belongs to one micro-batch                                          |
/// | reduced[b]       | where this process's gradient of bucket b ends up: the accumulator's, or |
/// |                  | its fold over the ranks that the process stands for                      |
/// | comm_buffer[b]   | of overlapping rounds: where the sums of gradients leave and weights     |
/// |                  | arrive, at its beginning                                                 |
/// | tied_buffer[p]   | where other weights of tied_weights[p] arrive, as those of comm_buffer   |
///
/// Only the `reserve` of an optimizer adds storages that outlive a round, and it adds them for every purpose, so that
/// the programs of a trainer agree on where they lie. Then the optimizer composes the step: it sets `phase` and has the
/// passes of the model, pipeline and swap, write the micro-batches of a phase, once for each phase of the step.
/// Compressors rewrite the whole.
///
/// \code
/// // given: const run::StepPlan& plan
/// run::StepBuilder builder(plan, 0, run::Purpose::training);
/// builder.program.add("Mine", run::Lane::compute).reads = {{builder.weights[0], 0}};
/// \endcode
struct StepBuilder {
  /// The gradients that one fold over micro-batches sums: the fold of a rank, or of a virtual rank.
  struct Accumulators {
    std::vector<StorageId> buckets;  ///< by bucket
    std::vector<StorageId> uses;     ///< by use: storages for uses of tied parameters beyond the first, else none
  };

  struct MicroBatch {
    int number = 0;                    ///< number among the micro-batches of all ranks in the step
    StorageId batch = no_storage;      ///< inputs and loss weight, as they come in
    std::vector<StorageId> tensors;    ///< by tensor that crosses a boundary
    std::vector<StorageId> gradients;  ///< gradients of those boundary tensors
    std::vector<StorageId>
        recomputed;                    ///< by boundary tensor: the storage that a Recompute writes it to
    std::vector<StorageId> saved;      ///< by segment
    std::vector<StorageId> forward_workspace;   ///< by segment
    std::vector<StorageId> recompute_workspace;  ///< by segment
    std::vector<StorageId> backward_workspace;  ///< by segment
    std::vector<StorageId> input_workspace;     ///< by segment, for the input halves of backwards
    std::vector<StorageId> weight_workspace;    ///< by segment, for the weight halves of backwards
    std::vector<StorageId> pending;             ///< by segment: what its weight half needs from its input half
    std::map<int, std::vector<Value>> rounded;  ///< by segment: gradients before they are rounded
    StorageId loss = no_storage;
    StorageId loss_weight = no_storage;
  };

  /// An update within a step, of the weights that the stage holds (WeightVersions).
  struct Update {
    int first = 0;                 ///< first of the program's micro-batches whose gradients the update takes
    int count = 0;                 ///< number of those micro-batches; their sums are `reduced`, of version phase.gradients
    std::vector<Value> weights{};  ///< by bucket: weights before the update
    std::vector<Value> target{};   ///< by bucket: weights after it; in a storage of their own, or the same
  };

  const StepPlan& plan;
  Purpose purpose;
  int variant = 0;  ///< which of the training programs this is
  schedule::Program program{};
  AccumulationPhase phase{};
  std::vector<StorageId> weights{};
  std::vector<StorageId> tied_weights{};  ///< by parameter that another stage holds and this one uses too
  std::vector<StorageId> frozen{};        ///< by parameter that is frozen and this stage uses
  std::vector<int> tied_versions{};       ///< versions of tied_weights, where they differ from phase.weights
  std::vector<Accumulators> accumulators{};
  std::vector<StorageId> reduced{};
  std::vector<StorageId> comm_buffer{};
  std::vector<StorageId> tied_buffer{};   ///< by parameter, of an optimizer that trains ahead of its committed weights
  std::vector<MicroBatch> micro_batches{};
  StorageId verdict = no_storage;  ///< storage to which the optimizer writes the step's verdict
  bool sends_tied_weights = false;  ///< true if the optimizer itself sends tied weights
  /// A function that writes an Update: set by an optimizer that has one, called by a pipeline that updates within a
  /// step.
  std::function<void(StepBuilder&, const Update&)> update{};

  /// Reserves weights and gradients of this rank's stage. Passes add the other storages.
  StepBuilder(const StepPlan& step_plan, int rank, Purpose step_purpose, int step_variant = 0);
  StepBuilder(StepBuilder&&);
  StepBuilder(const StepBuilder&) = delete;
  ~StepBuilder();

  /// Makes gradients hold their value from round to round, in accumulators of each fold. Called from `reserve`. Leaves
  /// out gradients from other stages, which keep them.
  void keep_gradients();
  [[nodiscard]] bool keeps_gradients() const { return keeps_gradients_; }

  [[nodiscard]] int rank() const { return program.rank; }

  /// Returns the stage of this rank; its segments and the buckets that it holds, ascending, have functions of their
  /// own. Storages of other segments and buckets are no_storage here.
  [[nodiscard]] int stage() const { return stage_; }
  [[nodiscard]] const std::vector<int>& segments() const& { return segments_; }
  [[nodiscard]] std::vector<int> segments() const&& { return segments_; }
  [[nodiscard]] const std::vector<std::size_t>& held() const& { return held_; }
  [[nodiscard]] std::vector<std::size_t> held() const&& { return held_; }
  /// True if this rank computes losses. Other ranks count nothing of their micro-batches.
  [[nodiscard]] bool reports_loss() const { return stage_ == plan.loss_stage(); }

  /// True if the operator of that use of a parameter is on this stage.
  [[nodiscard]] bool runs_use(int use) const { return plan.stage_of_use(use) == stage_; }

  /// True if weights change between micro-batches. A diagnosis keeps the weights that the step begins with.
  [[nodiscard]] bool updates_within_the_step() const {
    return purpose == Purpose::training && plan.weight_versions.within_a_step();
  }
  /// True if the program has backwards.
  [[nodiscard]] bool trains() const { return purpose != Purpose::evaluation; }
  /// Returns the bytes of the gradients of bucket b as they are computed; gradient_bytes: as they are kept and sent.
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

  /// Returns the gradients into which a segment's backward folds: of its bucket, then of each of its uses of tied
  /// parameters beyond the first.
  [[nodiscard]] std::vector<Value> gradients_of(int segment, int fold = 0) const;

  /// Returns the number of values in weights_of, for a segment of this stage; gradients_made_by that in gradients_of.
  /// Known from the start.
  [[nodiscard]] std::size_t weights_read_by(int segment) const {
    return counts_[static_cast<std::size_t>(segment)].weights;
  }
  [[nodiscard]] std::size_t gradients_made_by(int segment) const {
    return counts_[static_cast<std::size_t>(segment)].gradients;
  }

  /// Returns the uses, beyond the first, of the tied parameters of bucket b, in the order in which their gradients are
  /// added to that of the first.
  [[nodiscard]] std::vector<int> tied_uses(std::size_t b) const;

  /// Returns an object that a pass keeps from phase to phase while it writes the program: one State of each type, made
  /// when it is first asked for.
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
  std::vector<std::size_t> held_;
  std::vector<Counts> counts_{};  ///< by segment; zero for other stages
  bool keeps_gradients_ = false;
  std::map<const void*, std::shared_ptr<void>> scratch_{};  ///< by type
};

/// Writes a part of a program.
using Pass = std::function<void(StepBuilder&)>;

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/step_builder.ipp>
#endif
