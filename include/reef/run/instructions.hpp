#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/run/step_builder.hpp>

/// \file
/// What a pipeline writes: micro-batches, and their forwards, recomputations, backwards and folds.

namespace reef::inline v0::run {

/// Adds the storages of this rank's micro-batches of a phase and the `Receive`-lane instruction
/// that fills each micro-batch's inputs and loss weight: `Batch(j)`. Returns the first j.
///
/// Called by every pipeline policy, before its own instructions.
inline int add_micro_batches(StepBuilder& builder) {
  const StepPlan& plan = builder.plan;
  const graph::Dag& dag = *plan.dag;
  schedule::Program& program = builder.program;
  const int count = builder.phase.one_micro_batch ? 1 : plan.micro_batches_of(builder.rank());
  const int first = static_cast<int>(builder.micro_batches.size());
  const int before = builder.phase.before * plan.micro_batches_in_all() +
                     plan.micro_batches_before(builder.rank());
  const Bytes element = plan.sum_bytes();
  const StorageId losses =
      program.add_storage("losses", static_cast<Bytes>(count) * element, Place::device);
  const StorageId loss_weights =
      program.add_storage("loss weights", static_cast<Bytes>(count) * element, Place::device);

  for (int k = 0; k < count; ++k) {
    const std::string suffix = concat(" of micro-batch ", first + k);
    StepBuilder::MicroBatch storages;
    storages.number = before + k;
    storages.tensors.assign(dag.tensors.size(), no_storage);
    storages.gradients.assign(dag.tensors.size(), no_storage);
    storages.recomputed.assign(dag.tensors.size(), no_storage);

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
        program.add_part("loss" + suffix, losses, static_cast<Bytes>(k) * element, element);
    storages.loss_weight = program.add_part("loss weight" + suffix, loss_weights,
                                            static_cast<Bytes>(k) * element, element);
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
      const bool trains = builder.trains();
      const bool again = trains && plan.recomputes_segment(storages.saved.size());
      const auto add = [&](const char* what, Bytes bytes) {
        return program.add_storage(what + where, bytes, Place::device);
      };
      for (const int id : segment.recompute_writes) {
        const graph::Tensor& tensor = dag.tensor_at(id);
        if (!again) break;
        storages.recomputed[static_cast<std::size_t>(id)] = program.add_storage(
            tensor.name + " recomputed" + suffix, tensor.spec.bytes(), Place::device);
      }
      storages.saved.push_back(add("saved", trains ? segment.saved_bytes : 0));
      storages.forward_workspace.push_back(
          add("forward workspace", trains && !again ? segment.forward_workspace_bytes
                                                    : segment.inference_workspace_bytes));
      storages.recompute_workspace.push_back(
          add("recompute workspace", again ? segment.forward_workspace_bytes : 0));
      storages.backward_workspace.push_back(
          add("backward workspace", trains ? segment.backward_workspace_bytes : 0));
    }
    builder.micro_batches.push_back(std::move(storages));
  }
  for (int j = first; j < first + count; ++j) {
    const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
    Instruction& batch = program.add("Batch", Lane::receive, -1, j);
    for (const int input : dag.inputs) {
      batch.writes.push_back({storages.tensors[static_cast<std::size_t>(input)], 0});
    }
    batch.writes.push_back({storages.loss_weight, 0});
  }
  return first;
}

/// The forward of a segment keeps what its backward reads.
inline bool keeps(const StepBuilder& builder, int s) {
  return builder.trains() && !builder.plan.recomputes_segment(static_cast<std::size_t>(s));
}

/// Appends `Forward(segment, j)`; in an evaluation it keeps nothing for a backward, nor in a segment that
/// is recomputed.
///
///     reads    weights_of(segment), boundary inputs
///     writes   boundary outputs, saved (if kept), workspace
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
  if (keeps(builder, s)) {
    forward.writes.push_back({storages.saved[static_cast<std::size_t>(s)], 0});
  }
  forward.writes.push_back({storages.forward_workspace[static_cast<std::size_t>(s)], 0});
  forward.cost.flops = segment.forward_flops;
}

/// Appends `Recompute(segment, j)`: what its backward reads, computed as by its forward.
///
///     reads    weights_of(segment), those boundary inputs that it needs
///     writes   boundary outputs that it passes by (MicroBatch::again), saved, workspace
inline void add_recompute(StepBuilder& builder, int s, int j) {
  const auto index = static_cast<std::size_t>(s);
  const graph::Segment& segment = builder.plan.segments[index];
  const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
  Instruction& recompute = builder.program.add("Recompute", Lane::compute, s, j);
  recompute.reads = builder.weights_of(segment);
  for (const int id : segment.recompute_reads) {
    recompute.reads.push_back({storages.tensors[static_cast<std::size_t>(id)], 0});
  }
  for (const int id : segment.recompute_writes) {
    recompute.writes.push_back({storages.recomputed[static_cast<std::size_t>(id)], 0});
  }
  recompute.writes.push_back({storages.saved[index], 0});
  recompute.writes.push_back({storages.recompute_workspace[index], 0});
  recompute.cost.flops = segment.recompute_flops;
}

/// Appends `Backward(segment, j)`, behind a `Recompute` where the plan says so. The first micro-batch of a
/// fold overwrites the gradients, unless the phase continues; the others add to them.
///
///     reads                weights_of(segment), boundary tensors that it reads, saved, output gradients
///     writes, accumulates  input gradients; workspace among the writes; gradients_of(segment)
///
/// Where the plan rounds gradients, the Backward always writes, to storages of the micro-batch's own, and
/// `AddGradients(segment, j)` reads those, and writes or accumulates gradients_of(segment).
inline void add_backward(StepBuilder& builder, int s, int j, int fold, bool first_of_fold) {
  const graph::Segment& segment = builder.plan.segments[static_cast<std::size_t>(s)];
  const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
  if (!keeps(builder, s)) add_recompute(builder, s, j);
  Instruction& backward = builder.program.add("Backward", Lane::compute, s, j);
  backward.reads = builder.weights_of(segment);
  for (const int id : segment.backward_reads) {
    const auto tensor = static_cast<std::size_t>(id);
    const StorageId again = storages.recomputed[tensor];
    const bool own = builder.plan.dag->tensor_at(id).producer >= segment.first;
    backward.reads.push_back({own && again != no_storage ? again : storages.tensors[tensor], 0});
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
  backward.cost.flops = segment.backward_flops;
  const bool overwrites = first_of_fold && !builder.phase.continues;
  const std::vector<Value> gradients = builder.gradients_of(s, fold);
  if (!builder.plan.rounds_gradients()) {
    auto& to = overwrites ? backward.writes : backward.accumulates;
    to.insert(to.end(), gradients.begin(), gradients.end());
    return;
  }
  Instruction add;
  add.kind = "AddGradients";
  add.lane = Lane::compute;
  add.index = s;
  add.micro_batch = j;
  for (const Value value : gradients) {
    const schedule::Storage sum = builder.program.storages[value.storage];
    const Bytes bytes = sum.bytes / builder.plan.gradient_bytes() * builder.plan.sum_bytes();
    add.reads.push_back(
        {builder.program.add_storage(concat(sum.name, " of micro-batch ", j), bytes, Place::device),
         0});
    add.cost.bytes += bytes + (overwrites ? 1 : 2) * sum.bytes;
  }
  backward.writes.insert(backward.writes.end(), add.reads.begin(), add.reads.end());
  (overwrites ? add.writes : add.accumulates) = gradients;
  builder.program.round.push_back(std::move(add));
}

/// The Backward writes its gradients, since it begins a fold, or has places of its own for them.
inline bool overwrites_gradients(const StepBuilder& builder, const Instruction& backward) {
  const graph::Segment& segment = builder.plan.segments[static_cast<std::size_t>(backward.index)];
  const auto added = std::count(segment.input_gradient_accumulates.begin(),
                                segment.input_gradient_accumulates.end(), true);
  return backward.accumulates.size() <
         static_cast<std::size_t>(added) + builder.gradients_of(backward.index).size();
}

/// The gradients that a Backward writes or adds to, in the order of StepBuilder::gradients_of.
inline std::vector<Value> gradients_of(const StepBuilder& builder, const Instruction& backward) {
  const auto& values =
      overwrites_gradients(builder, backward) ? backward.writes : backward.accumulates;
  const auto count = static_cast<std::ptrdiff_t>(builder.gradients_of(backward.index).size());
  return {values.end() - count, values.end()};
}

/// Appends what ends a rank's fold: the tied uses of parameters are added to the first, in
/// the order of use (`FoldUses`), and where the process stands for several ranks, this one's
/// gradient to the ranks' before (`FoldRank`). Nothing where each fold keeps its gradients: they are
/// folded when they are handed over.
inline void add_folds(StepBuilder& builder, int fold) {
  if (builder.keeps_gradients()) return;
  const StepPlan& plan = builder.plan;
  schedule::Program& program = builder.program;
  for (std::size_t b = plan.buckets.size(); b-- > 0;) {
    Instruction uses;
    uses.kind = "FoldUses";
    uses.index = static_cast<int>(b);
    const StepBuilder::Accumulators& sums = builder.accumulators_of(fold);
    for (const int use : builder.tied_uses(b)) {
      const StorageId addend = sums.uses[static_cast<std::size_t>(use)];
      uses.reads.push_back({addend, builder.phase.gradients});
      uses.cost.bytes += 3 * program.storages[addend].bytes;  // both are read, and one written
    }
    const Value gradient{sums.buckets[b], builder.phase.gradients};
    if (!uses.reads.empty()) {
      uses.accumulates = {gradient};
      program.round.push_back(std::move(uses));
    }
    if (plan.virtual_ranks == 1) continue;
    Instruction& rank = program.add("FoldRank", Lane::compute, static_cast<int>(b));
    rank.reads = {gradient};
    rank.cost.bytes = (fold == 0 ? 1 : 2) * program.storages[builder.reduced[b]].bytes +
                      program.storages[gradient.storage].bytes;
    (fold == 0 ? rank.writes : rank.accumulates) = {{builder.reduced[b], 0}};
  }
}

}  // namespace reef::inline v0::run
