#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::run {

using schedule::Instruction;
using schedule::Lane;
using schedule::Life;
using schedule::no_storage;
using schedule::Place;
using schedule::StorageId;
using schedule::Value;

/// What a program is for.
enum class Purpose : std::uint8_t { training, evaluation };

/// A rank's program under construction, with the storages that the axes agree on by name.
///
/// | weights[b]         | the parameters of bucket b, persistent: version 0, after the update 1         |
/// | gradients[b]       | their gradients, folded over this rank's micro-batches                        |
/// | extra_gradients[u] | of use u of a tied parameter beyond its first                                 |
/// | micro_batches[j]   | what belongs to one micro-batch; losses and loss_weights have an element each |
/// | reduced[b]         | where this process's gradient of bucket b ends up: gradients[b], or its fold  |
/// |                    | over the ranks that the process stands for                                    |
///
/// Passes run in the order reserve (of all axes), pipeline, swap, optim, compress; each appends or
/// rewrites. Only `reserve` adds storages that outlive a round, and it does so for every purpose, so
/// that the programs of a trainer agree on where those lie.
struct StepBuilder {
  struct MicroBatch {
    StorageId batch = no_storage;               ///< inputs and loss weight, as they come in
    std::vector<StorageId> tensors;             ///< by tensor that crosses a boundary
    std::vector<StorageId> gradients;           ///< of those
    std::vector<StorageId> saved;               ///< by segment
    std::vector<StorageId> forward_workspace;   ///< by segment
    std::vector<StorageId> backward_workspace;  ///< by segment
    StorageId loss = no_storage;
    StorageId loss_weight = no_storage;
  };

  const StepPlan& plan;
  Purpose purpose;
  schedule::Program program{};
  std::vector<StorageId> weights{};
  std::vector<StorageId> gradients{};
  std::vector<StorageId> extra_gradients{};
  std::vector<StorageId> reduced{};
  std::vector<MicroBatch> micro_batches{};
  StorageId losses = no_storage;
  StorageId loss_weights = no_storage;
  StorageId verdict = no_storage;      ///< where the optimizer says what the step came to
  std::size_t model_instructions = 0;  ///< how many instructions the optimizer found in the round

  /// Reserves weights and gradients. The other storages come with the passes.
  StepBuilder(const StepPlan& step_plan, int rank, Purpose step_purpose)
      : plan(step_plan), purpose(step_purpose) {
    program.rank = rank;
    const auto sums = [&](std::size_t b) {
      return static_cast<Bytes>(plan.buckets[b].size()) * plan.sum_bytes();
    };
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      const std::string name = std::to_string(b);
      const Bytes bytes = static_cast<Bytes>(plan.buckets[b].size()) * plan.element_bytes();
      weights.push_back(
          program.add_storage("weights " + name, bytes, Place::device, Life::persistent));
      gradients.push_back(
          program.add_storage("gradients " + name, sums(b), Place::device, Life::reserved));
    }
    extra_gradients.assign(plan.dag->uses.size(), no_storage);
    for (const graph::Parameter& parameter : plan.dag->parameters) {
      for (std::size_t i = 1; i < parameter.uses.size(); ++i) {
        extra_gradients[static_cast<std::size_t>(parameter.uses[i])] = program.add_storage(
            concat("gradient of use ", i, " of ", parameter.name),
            plan.dag->gradient_spec(parameter).bytes(), Place::device, Life::reserved);
      }
    }
    reduced = gradients;
    for (std::size_t b = 0; plan.virtual_ranks > 1 && b < plan.buckets.size(); ++b) {
      reduced[b] = program.add_storage(concat("gradients of all ranks ", b), sums(b), Place::device,
                                       Life::reserved);
    }
  }

  [[nodiscard]] int rank() const { return program.rank; }

  /// The buckets whose weights a segment reads, ascending.
  [[nodiscard]] std::vector<std::size_t> buckets_of(const graph::Segment& segment) const {
    std::vector<std::size_t> buckets;
    for (const int id : segment.parameters) {
      buckets.push_back(
          static_cast<std::size_t>(plan.bucket_of_parameter[static_cast<std::size_t>(id)]));
    }
    std::sort(buckets.begin(), buckets.end());
    buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
    return buckets;
  }

  /// Their storages.
  [[nodiscard]] std::vector<Value> weights_of(const graph::Segment& segment) const {
    std::vector<Value> values;
    for (const std::size_t b : buckets_of(segment)) values.push_back({weights[b], 0});
    return values;
  }

  /// The gradients that a segment's backward folds into: of its bucket, then of each of its uses of
  /// tied parameters beyond the first.
  [[nodiscard]] std::vector<Value> gradients_of(int segment) const {
    std::vector<Value> values;
    const auto s = static_cast<std::size_t>(segment);
    if (plan.bucket_of_segment[s] >= 0) {
      values.push_back({gradients[static_cast<std::size_t>(plan.bucket_of_segment[s])], 0});
    }
    for (const int use : plan.segments[s].uses) {
      const StorageId extra = extra_gradients[static_cast<std::size_t>(use)];
      if (extra != no_storage) values.push_back({extra, 0});
    }
    return values;
  }
};

/// Adds the storages of this rank's micro-batches and the `Receive`-lane instruction that fills each
/// micro-batch's inputs and loss weight: `Batch(j)`.
///
/// Called by every pipeline policy, before its own instructions.
inline void add_micro_batches(StepBuilder& builder) {
  const StepPlan& plan = builder.plan;
  const graph::Dag& dag = *plan.dag;
  schedule::Program& program = builder.program;
  const int count = plan.micro_batches_of(builder.rank());
  const Bytes element = plan.sum_bytes();
  builder.losses =
      program.add_storage("losses", static_cast<Bytes>(count) * element, Place::device);
  builder.loss_weights =
      program.add_storage("loss weights", static_cast<Bytes>(count) * element, Place::device);

  for (int j = 0; j < count; ++j) {
    const std::string suffix = concat(" of micro-batch ", j);
    StepBuilder::MicroBatch storages;
    storages.tensors.assign(dag.tensors.size(), no_storage);
    storages.gradients.assign(dag.tensors.size(), no_storage);

    Bytes batch_bytes = 0;
    for (const int input : dag.inputs)
      batch_bytes += round_up(dag.tensor_at(input).spec.bytes(), 64);
    storages.batch = program.add_storage("batch" + suffix, batch_bytes, Place::device);
    Bytes offset = 0;
    for (const int input : dag.inputs) {
      const graph::Tensor& tensor = dag.tensor_at(input);
      storages.tensors[static_cast<std::size_t>(input)] =
          program.add_part(tensor.name + suffix, storages.batch, offset, tensor.spec.bytes());
      offset += round_up(tensor.spec.bytes(), 64);
    }
    storages.loss =
        program.add_part("loss" + suffix, builder.losses, static_cast<Bytes>(j) * element, element);
    storages.loss_weight = program.add_part("loss weight" + suffix, builder.loss_weights,
                                            static_cast<Bytes>(j) * element, element);
    const auto loss = static_cast<std::size_t>(dag.loss);
    storages.tensors[loss] = storages.loss;
    storages.gradients[loss] = storages.loss_weight;

    for (const graph::Segment& segment : plan.segments) {
      for (const int id : segment.boundary_outputs) {
        const auto t = static_cast<std::size_t>(id);
        if (storages.tensors[t] != no_storage) continue;
        const graph::Tensor& tensor = dag.tensor_at(id);
        storages.tensors[t] =
            program.add_storage(tensor.name + suffix, tensor.spec.bytes(), Place::device);
      }
      for (const int id : segment.output_gradients) {
        const auto t = static_cast<std::size_t>(id);
        if (storages.gradients[t] != no_storage) continue;
        const graph::Tensor& tensor = dag.tensor_at(id);
        storages.gradients[t] = program.add_storage(concat("gradient of ", tensor.name, suffix),
                                                    tensor.spec.bytes(), Place::device);
      }
      const std::string where = concat(" of segment ", storages.saved.size(), suffix);
      const bool trains = builder.purpose == Purpose::training;
      storages.saved.push_back(
          program.add_storage("saved" + where, trains ? segment.saved_bytes : 0, Place::device));
      storages.forward_workspace.push_back(program.add_storage(
          "forward workspace" + where,
          trains ? segment.forward_workspace_bytes : segment.inference_workspace_bytes,
          Place::device));
      storages.backward_workspace.push_back(
          program.add_storage("backward workspace" + where,
                              trains ? segment.backward_workspace_bytes : 0, Place::device));
    }
    builder.micro_batches.push_back(std::move(storages));
  }
  for (int j = 0; j < count; ++j) {
    const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
    Instruction& batch = program.add("Batch", Lane::receive, -1, j);
    for (const int input : dag.inputs) {
      batch.writes.push_back({storages.tensors[static_cast<std::size_t>(input)], 0});
    }
    batch.writes.push_back({storages.loss_weight, 0});
  }
}

/// Appends `Forward(segment, j)`; in an evaluation it keeps nothing for a backward.
///
///     reads    weights_of(segment), boundary inputs
///     writes   boundary outputs, saved (in training), workspace
inline void add_forward(StepBuilder& builder, int s, int j) {
  const graph::Segment& segment = builder.plan.segments[static_cast<std::size_t>(s)];
  const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
  Instruction& forward = builder.program.add("Forward", Lane::compute, s, j);
  forward.reads = builder.weights_of(segment);
  for (const int id : segment.boundary_inputs) {
    forward.reads.push_back({storages.tensors[static_cast<std::size_t>(id)], 0});
  }
  for (const int id : segment.boundary_outputs) {
    forward.writes.push_back({storages.tensors[static_cast<std::size_t>(id)], 0});
  }
  if (builder.purpose == Purpose::training) {
    forward.writes.push_back({storages.saved[static_cast<std::size_t>(s)], 0});
  }
  forward.writes.push_back({storages.forward_workspace[static_cast<std::size_t>(s)], 0});
  forward.cost.flops = segment.forward_flops;
}

/// Appends `Backward(segment, j)`. The first micro-batch of a fold overwrites the gradients, the
/// others add to them.
///
///     reads                weights_of(segment), boundary tensors that it reads, saved, output gradients
///     writes, accumulates  input gradients; workspace among the writes; gradients_of(segment)
inline void add_backward(StepBuilder& builder, int s, int j, bool first_of_fold) {
  const graph::Segment& segment = builder.plan.segments[static_cast<std::size_t>(s)];
  const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
  Instruction& backward = builder.program.add("Backward", Lane::compute, s, j);
  backward.reads = builder.weights_of(segment);
  for (const int id : segment.backward_reads) {
    backward.reads.push_back({storages.tensors[static_cast<std::size_t>(id)], 0});
  }
  backward.reads.push_back({storages.saved[static_cast<std::size_t>(s)], 0});
  for (const int id : segment.output_gradients) {
    backward.reads.push_back({storages.gradients[static_cast<std::size_t>(id)], 0});
  }
  for (std::size_t i = 0; i < segment.input_gradients.size(); ++i) {
    const Value value{storages.gradients[static_cast<std::size_t>(segment.input_gradients[i])], 0};
    (segment.input_gradient_accumulates[i] ? backward.accumulates : backward.writes)
        .push_back(value);
  }
  backward.writes.push_back({storages.backward_workspace[static_cast<std::size_t>(s)], 0});
  for (const Value value : builder.gradients_of(s)) {
    (first_of_fold ? backward.writes : backward.accumulates).push_back(value);
  }
  backward.cost.flops = segment.backward_flops;
}

/// Appends what ends a rank's fold: the further uses of tied parameters are added to the first, in
/// the order of use (`FoldUses`), and where the process stands for several ranks, this one's
/// gradient to the ranks' before (`FoldRank`).
inline void add_folds(StepBuilder& builder, int fold) {
  const StepPlan& plan = builder.plan;
  schedule::Program& program = builder.program;
  for (std::size_t b = plan.buckets.size(); b-- > 0;) {
    Instruction uses;
    uses.kind = "FoldUses";
    uses.index = static_cast<int>(b);
    for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
      if (plan.bucket_of_parameter[p] != static_cast<int>(b)) continue;
      for (const int use : plan.dag->parameters[p].uses) {
        const StorageId extra = builder.extra_gradients[static_cast<std::size_t>(use)];
        if (extra != no_storage) uses.reads.push_back({extra, 0});
      }
    }
    if (!uses.reads.empty()) {
      uses.accumulates = {{builder.gradients[b], 0}};
      program.round.push_back(std::move(uses));
    }
    if (plan.virtual_ranks == 1) continue;
    Instruction& rank = program.add("FoldRank", Lane::compute, static_cast<int>(b));
    rank.reads = {{builder.gradients[b], 0}};
    (fold == 0 ? rank.writes : rank.accumulates) = {{builder.reduced[b], 0}};
  }
}

}  // namespace reef::inline v0::run
