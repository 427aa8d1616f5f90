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

/// What a program is for.
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
  int weights = 0;         ///< the version that is read
  int gradients = 0;       ///< the version that is written
  bool continues = false;  ///< gradients are added to those that are there
  bool one_micro_batch = false;  ///< the body of a Repeat, of one stage: one more micro-batch in each iteration
  int before = 0;          ///< phases whose samples come before this one's
};

/// A rank's program under construction, with the storages that the axes agree on by name.
///
/// | weights[b]       | the parameters of bucket b, persistent: version 0, after the update 1    |
/// | tied_weights[p]  | parameter p, which another stage holds; versions as of weights           |
/// | accumulators     | what gradients are summed in: one for all folds, or one that each keeps; |
/// |                  | of plan.gradient                                                         |
/// | micro_batches[j] | what belongs to one micro-batch                                          |
/// | reduced[b]       | where this process's gradient of bucket b ends up: the accumulator's, or |
/// |                  | its fold over the ranks that the process stands for                      |
/// | comm_buffer[b]   | of overlapping rounds: where the sums of gradients leave and weights     |
/// |                  | arrive, at its beginning                                                 |
/// | tied_buffer[p]   | where other weights of tied_weights[p] arrive, as those of comm_buffer   |
///
/// Only `reserve` of an optimizer adds storages that outlive a round, and it does so for every
/// purpose, so that the programs of a trainer agree on where those lie. Then the optimizer composes
/// the step: it sets `phase` and has the model's pass, pipeline and swap, write the micro-batches
/// of one, as often as the step has phases. Compressors rewrite the whole.
///
/// \code
/// // given: const run::StepPlan& plan
/// run::StepBuilder builder(plan, 0, run::Purpose::training);
/// builder.program.add("Mine", run::Lane::compute).reads = {{builder.weights[0], 0}};
/// \endcode
struct StepBuilder {
  /// The gradients that one fold over micro-batches sums: of a rank, or of a virtual rank.
  struct Accumulators {
    std::vector<StorageId> buckets;  ///< by bucket
    std::vector<StorageId> uses;     ///< by use: of a tied parameter beyond its first, else none
  };

  struct MicroBatch {
    int number = 0;                    ///< among those of all ranks in the step
    StorageId batch = no_storage;      ///< inputs and loss weight, as they come in
    std::vector<StorageId> tensors;    ///< by tensor that crosses a boundary
    std::vector<StorageId> gradients;  ///< of those
    std::vector<StorageId>
        recomputed;                    ///< of those tensors, by tensor: where a Recompute writes it
    std::vector<StorageId> saved;      ///< by segment
    std::vector<StorageId> forward_workspace;   ///< by segment
    std::vector<StorageId> recompute_workspace;  ///< by segment
    std::vector<StorageId> backward_workspace;  ///< by segment
    std::vector<StorageId> input_workspace;     ///< by segment, of halves
    std::vector<StorageId> weight_workspace;    ///< by segment, of halves
    std::vector<StorageId> pending;             ///< by segment: between its halves
    std::map<int, std::vector<Value>> rounded;  ///< by segment: gradients before they are rounded
    StorageId loss = no_storage;
    StorageId loss_weight = no_storage;
  };

  /// An update within a step, of the weights that the stage holds (WeightVersions).
  struct Update {
    int first = 0;                 ///< of the program's micro-batches: with it those begin whose gradients it has
    int count = 0;                 ///< of them; their sums are `reduced`, of version phase.gradients
    std::vector<Value> weights{};  ///< by bucket: before
    std::vector<Value> target{};   ///< by bucket: behind; a storage of its own, or the same
  };

  const StepPlan& plan;
  Purpose purpose;
  int variant = 0;  ///< which of the training programs this is
  schedule::Program program{};
  AccumulationPhase phase{};
  std::vector<StorageId> weights{};
  std::vector<StorageId> tied_weights{};  ///< by parameter: what another stage holds and this one uses too
  std::vector<int> tied_versions{};       ///< of those, where they are not that of phase.weights
  std::vector<Accumulators> accumulators{};
  std::vector<StorageId> reduced{};
  std::vector<StorageId> comm_buffer{};
  std::vector<StorageId> tied_buffer{};   ///< by parameter, of an optimizer that trains ahead of its committed weights
  std::vector<MicroBatch> micro_batches{};
  StorageId verdict = no_storage;  ///< where the optimizer says what the step came to
  bool sends_tied_weights = false;  ///< the optimizer does, itself
  /// Writes an Update: an optimizer that can sets it, and a pipeline that updates within a step calls it.
  std::function<void(StepBuilder&, const Update&)> update{};

  /// Reserves weights and gradients of this rank's stage. The other storages come with the passes.
  StepBuilder(const StepPlan& step_plan, int rank, Purpose step_purpose, int step_variant = 0);
  StepBuilder(StepBuilder&&);
  StepBuilder(const StepBuilder&) = delete;
  ~StepBuilder();

  /// Gradients hold their value from round to round, each fold's its own. For `reserve`. Not those that come from other
  /// stages, which keep them.
  void keep_gradients();
  [[nodiscard]] bool keeps_gradients() const { return keeps_gradients_; }

  [[nodiscard]] int rank() const { return program.rank; }

  /// The stage of this rank, its segments, and the buckets that it holds, ascending. What belongs to
  /// other segments and buckets is no_storage here.
  [[nodiscard]] int stage() const { return stage_; }
  [[nodiscard]] const std::vector<int>& segments() const& { return segments_; }
  [[nodiscard]] std::vector<int> segments() const&& { return segments_; }
  [[nodiscard]] const std::vector<std::size_t>& held() const& { return held_; }
  [[nodiscard]] std::vector<std::size_t> held() const&& { return held_; }
  /// This rank computes losses. Others count nothing of their micro-batches.
  [[nodiscard]] bool reports_loss() const { return stage_ == plan.loss_stage(); }

  /// The operator of that use of a parameter is on this stage.
  [[nodiscard]] bool runs_use(int use) const { return plan.stage_of_use(use) == stage_; }

  /// Weights change between micro-batches. A diagnosis has those that the step begins with.
  [[nodiscard]] bool updates_within_the_step() const {
    return purpose == Purpose::training && plan.weight_versions.within_a_step();
  }
  /// There is a backward.
  [[nodiscard]] bool trains() const { return purpose != Purpose::evaluation; }
  /// Of the gradients of bucket b, as they are computed, and as they are kept and sent.
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

  /// The micro-batches of a replica, or of a virtual rank, in the phase.
  [[nodiscard]] int micro_batches_of(int fold) const {
    return phase.one_micro_batch ? 1 : plan.micro_batches[static_cast<std::size_t>(fold)];
  }

  /// The buckets of this stage whose weights a segment of its own reads, ascending.
  [[nodiscard]] std::vector<std::size_t> buckets_of(const graph::Segment& segment) const;

  /// Their storages, then those of tied parameters that other stages hold, ascending.
  [[nodiscard]] std::vector<Value> weights_of(const graph::Segment& segment) const;

  /// The parameters that it uses and another stage holds, ascending, each once.
  [[nodiscard]] std::vector<int> tied_of(const graph::Segment& segment) const;

  /// The gradients that a segment's backward folds into: of its bucket, then of each of its uses of
  /// tied parameters beyond the first.
  [[nodiscard]] std::vector<Value> gradients_of(int segment, int fold = 0) const;

  /// How many these are, of a segment of this stage; known from the start.
  [[nodiscard]] std::size_t weights_read_by(int segment) const {
    return counts_[static_cast<std::size_t>(segment)].weights;
  }
  [[nodiscard]] std::size_t gradients_made_by(int segment) const {
    return counts_[static_cast<std::size_t>(segment)].gradients;
  }

  /// The uses, beyond the first, of the tied parameters of bucket b: in the order in which their
  /// gradients are added to the first's.
  [[nodiscard]] std::vector<int> tied_uses(std::size_t b) const;

  /// What a pass keeps from phase to phase while it writes the program: one State of each type, made
  /// when it is first asked for.
  template <class State>
  [[nodiscard]] State& scratch() {
    static char key = 0;  // not const: a linker may give constants that are equal one address
    std::shared_ptr<void>& state = scratch_[&key];
    if (!state) state = std::make_shared<State>();
    return *static_cast<State*>(state.get());
  }

private:
  /// Of a segment's operands.
  struct Counts {
    std::size_t weights = 0;
    std::size_t gradients = 0;
  };

  void add_accumulators(const std::string& whose, Life life);

  int stage_;
  std::vector<int> segments_;
  std::vector<std::size_t> held_;
  std::vector<Counts> counts_{};  ///< by segment; of other stages none
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
