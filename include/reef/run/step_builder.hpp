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

/// The purpose of a rank's program: training, evaluation or another.
///
/// | training         | a step; several such programs may take turns from step to step     |
/// | evaluation       | forwards, and the mean of their losses                             |
/// | diagnosis        | forwards and backwards of a step again, checking each gradient     |
/// | prologue         | computes the gradient with which the first overlapping step begins |
/// | warm_up          | a step without overlap, of an optimizer whose steps overlap later  |
/// | gather_committed | brings the committed weights from their owners to all ranks        |
enum class Purpose : std::uint8_t {
  training,
  evaluation,
  diagnosis,
  prologue,
  warm_up,
  gather_committed
};

inline constexpr std::size_t purpose_count = 6;

/// An accumulation phase of a step: the micro-batches that a rank runs with weights of one version, and whose gradients
/// are summed. Most steps have one phase, a step of ACCO has two.
struct AccumulationPhase {
  int weights = 0;               ///< the version of the weights that the accumulation phase reads
  int gradients = 0;             ///< the version of the gradients that the accumulation phase writes
  bool continues = false;        ///< true if gradients are added to the sums of an earlier phase of the step
  bool one_micro_batch = false;  ///< true for a loop on one stage in which each iteration runs one micro-batch
  int before = 0;                ///< the number of phases of the step whose samples come before those of this phase
};

/// A rank's program of instructions under construction, with the storages (named blocks of memory) that all policies
/// share.
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
  /// The memory for gradient sums over the micro-batches of one rank, or of one rank that a lone process emulates.
  struct Accumulators {
    /// memory block of the gradient sum of each bucket (parameters of one segment)
    std::vector<StorageId> buckets;
    /// memory block for each use of a tied parameter beyond its first; no_storage for other uses
    std::vector<StorageId> uses;
  };

  struct MicroBatch {
    int number = 0;                  ///< number of the micro-batch among those of all ranks in the step
    StorageId batch = no_storage;    ///< memory block of the micro-batch's model inputs
    std::vector<StorageId> tensors;  ///< memory block of each tensor that crosses from one segment to another
    /// memory block of the gradient of each tensor that crosses from one segment to another
    std::vector<StorageId> gradients;
    std::vector<StorageId>
        recomputed;  ///< memory block to which recomputation writes each tensor that crosses between segments
    std::vector<StorageId> saved;  ///< memory block of the tensors that each segment's forward saves for its backward
    std::vector<StorageId> forward_workspace;   ///< scratch memory of each segment's forward
    std::vector<StorageId> recompute_workspace;  ///< scratch memory of each segment's recomputation
    std::vector<StorageId> backward_workspace;  ///< scratch memory of each segment's backward
    std::vector<StorageId> input_workspace;     ///< scratch memory of the input half of each segment's backward
    std::vector<StorageId> weight_workspace;    ///< scratch memory of the weight half of each segment's backward
    /// memory block of the data that the input half of each segment's backward hands to the weight half
    std::vector<StorageId> pending;
    /// gradients of each segment before they are rounded to a narrower type
    std::map<int, std::vector<Value>> rounded;
    StorageId loss = no_storage;
    StorageId loss_weight = no_storage;
  };

  /// An update of the weights that a pipeline stage holds, within a step, between micro-batches (WeightVersions).
  struct Update {
    int first = 0;                 ///< index of the first micro-batch of the program whose gradients the update uses
    /// Number of micro-batches whose gradients the update uses; their sums are `reduced`, of version phase.gradients.
    int count = 0;
    std::vector<Value> weights{};  ///< weights of each bucket before the update
    std::vector<Value> target{};   ///< weights of each bucket after the update, in the same memory or another
  };

  const StepPlan& plan;
  Purpose purpose;
  int variant = 0;  ///< the number of this program among the training programs that take turns
  schedule::Program program{};
  AccumulationPhase phase{};
  std::vector<StorageId> weights{};
  /// Memory block of each parameter that this stage uses and another stage owns.
  std::vector<StorageId> tied_weights{};
  std::vector<StorageId> frozen{};   ///< memory block of each frozen parameter that this stage uses
  std::vector<int> tied_versions{};  ///< the version of each of tied_weights, if they differ from phase.weights
  std::vector<Accumulators> accumulators{};
  std::vector<StorageId> reduced{};
  std::vector<StorageId> comm_buffer{};
  /// For each tied parameter (used by several stages), the memory block in which its new weights arrive, if the
  /// optimizer computes gradients at weights ahead of the committed ones.
  std::vector<StorageId> tied_buffer{};
  std::vector<MicroBatch> micro_batches{};
  StorageId verdict = no_storage;   ///< memory block of the step's outcome (Verdict), which the optimizer writes
  bool sends_tied_weights = false;  ///< true if the optimizer itself sends the weights that several stages share
  /// A function that writes the instructions of an update within a step: set by an optimizer that can do so, called by
  /// a pipeline that asks for it.
  std::function<void(StepBuilder&, const Update&)> update{};

  /// Adds the memory blocks for weights and gradients of this rank's stage to the program. Policies add the others.
  StepBuilder(const StepPlan& step_plan, int rank, Purpose step_purpose, int step_variant = 0);
  StepBuilder(StepBuilder&&);
  StepBuilder(const StepBuilder&) = delete;
  ~StepBuilder();

  /// Makes gradients keep their values from step to step, with sums for each rank that the process stands for. Called
  /// by an optimizer's `reserve`. Leaves out gradients that come from other stages, which keep them there.
  void keep_gradients();
  [[nodiscard]] bool keeps_gradients() const { return keeps_gradients_; }

  [[nodiscard]] int rank() const { return program.rank; }

  /// Returns the pipeline stage of this rank; segments() and stage_buckets() return its segments and the buckets that
  /// it holds, ascending. Storages of other segments and buckets are no_storage here.
  [[nodiscard]] int stage() const { return stage_; }
  [[nodiscard]] const std::vector<int>& segments() const& { return segments_; }
  [[nodiscard]] std::vector<int> segments() const&& { return segments_; }
  [[nodiscard]] const std::vector<std::size_t>& stage_buckets() const& { return stage_buckets_; }
  [[nodiscard]] std::vector<std::size_t> stage_buckets() const&& { return stage_buckets_; }
  /// Returns true if this rank computes losses. Other ranks do not count their micro-batches.
  [[nodiscard]] bool reports_loss() const { return stage_ == plan.loss_stage(); }

  /// Returns true if the operator that has this use of a parameter is on this rank's stage.
  [[nodiscard]] bool runs_use(int use) const { return plan.stage_of_use(use) == stage_; }

  /// Returns true if weights change between micro-batches, as only training programs of asynchronous pipelines do.
  [[nodiscard]] bool updates_within_the_step() const {
    return purpose == Purpose::training && plan.weight_versions.within_a_step();
  }
  /// Returns true if the program has backward passes.
  [[nodiscard]] bool trains() const { return purpose != Purpose::evaluation; }
  /// Returns the bytes of the gradients of bucket b (parameters of one segment) as computed; gradient_bytes() returns
  /// those as stored and sent.
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

  /// Returns the number of micro-batches in the accumulation phase of one copy of the model, or of one rank that the
  /// process emulates.
  [[nodiscard]] int micro_batches_of(int fold) const {
    return phase.one_micro_batch ? 1 : plan.micro_batches[static_cast<std::size_t>(fold)];
  }

  /// Returns the buckets of this stage whose weights a segment reads, ascending. A bucket is the parameters first used
  /// in one segment.
  [[nodiscard]] std::vector<std::size_t> buckets_of(const graph::Segment& segment) const;

  /// Returns the weights that a segment (consecutive operators) reads: storages of its buckets, then those of tied
  /// parameters that other stages hold, ascending, then of frozen ones.
  [[nodiscard]] std::vector<Value> weights_of(const graph::Segment& segment) const;

  /// Returns the parameters that a segment uses and another stage holds, ascending, each once.
  [[nodiscard]] std::vector<int> tied_of(const graph::Segment& segment) const;

  /// Returns the frozen parameters that a segment of this stage uses, ascending, each once.
  [[nodiscard]] std::vector<int> frozen_of(const graph::Segment& segment) const;

  /// Returns the gradients to which a segment's backward adds: that of its bucket (its own parameters), then that of
  /// each of its uses of tied parameters beyond the first.
  [[nodiscard]] std::vector<Value> gradients_of(int segment, int fold = 0) const;

  /// Returns the number of values that weights_of returns for a segment of this stage; gradients_made_by() returns that
  /// of gradients_of. Both are known from construction on.
  [[nodiscard]] std::size_t weights_read_by(int segment) const {
    return counts_[static_cast<std::size_t>(segment)].weights;
  }
  [[nodiscard]] std::size_t gradients_made_by(int segment) const {
    return counts_[static_cast<std::size_t>(segment)].gradients;
  }

  /// Returns the uses, beyond the first, of the tied parameters of bucket b, in the order in which their gradients are
  /// added to that of the first use.
  [[nodiscard]] std::vector<int> tied_uses(std::size_t b) const;

  /// Returns an object that a policy keeps from one accumulation phase to the next while it writes the program: one
  /// object for each type State, constructed at the first call.
  template <class State>
  [[nodiscard]] State& scratch() {
    static char key = 0;  // not const: a linker may give constants that are equal one address
    std::shared_ptr<void>& state = scratch_[&key];
    if (!state) state = std::make_shared<State>();
    return *static_cast<State*>(state.get());
  }

private:
  /// The numbers of weights and gradients that a segment uses.
  struct Counts {
    std::size_t weights = 0;
    std::size_t gradients = 0;
  };

  void add_accumulators(const std::string& whose, Life life);
  void add_frozen();

  int stage_;
  std::vector<int> segments_;
  std::vector<std::size_t> stage_buckets_;
  /// By segment: the numbers of its weights and gradients; zero for segments of other stages.
  std::vector<Counts> counts_{};
  bool keeps_gradients_ = false;
  std::map<const void*, std::shared_ptr<void>> scratch_{};  ///< the objects of scratch(), by a key of their type
};

/// A policy's function that writes its part of a rank's program.
using Pass = std::function<void(StepBuilder&)>;

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/step_builder.ipp>
#endif
