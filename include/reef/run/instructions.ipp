#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/instructions.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE std::vector<Value> values_of(const std::vector<StorageId>& storages,
                                         const std::vector<int>& ids, int version) {
  std::vector<Value> values;
  for (const int id : ids) values.push_back({storages[static_cast<std::size_t>(id)], version});
  return values;
}

REEF_INLINE std::pair<std::int64_t, std::int64_t> elements_in(const StepBuilder& builder,
                                                              std::size_t b, StorageId storage,
                                                              Bytes element) {
  const Bucket& bucket = builder.plan.buckets[b];
  if (storage == no_storage || !bucket.group.has(builder.rank())) {
    throw ScheduleError("reef::run: bucket ", b, " is not on rank ", builder.rank(),
                        ", but on those of ", bucket.group.name,
                        ".\n  fix: go through builder.stage_buckets().");
  }
  const auto elements =
      static_cast<std::int64_t>(builder.program.storages[storage].bytes / element);
  if (elements == bucket.size()) return {0, elements};
  const std::int64_t begin = bucket.shard_begin(builder.rank());
  if (elements == bucket.shard_size(builder.rank())) return {begin, begin + elements};
  throw ScheduleError("reef::run: '", builder.program.storages[storage].name, "' has ", elements,
                      " elements of bucket ", b, ", which has ", bucket.size(), ", this rank's shard ",
                      bucket.shard_size(builder.rank()),
                      ".\n  fix: a storage of the whole bucket, or of the shard.");
}

REEF_INLINE bool reads_batches(const StepBuilder& builder) {
  const graph::Dag& dag = *builder.plan.dag;
  if (builder.reports_loss() || builder.updates_within_the_step()) return true;
  for (const int s : builder.segments()) {
    for (const int id : builder.plan.segments[static_cast<std::size_t>(s)].boundary_inputs) {
      if (std::find(dag.inputs.begin(), dag.inputs.end(), id) != dag.inputs.end()) return true;
    }
  }
  return false;
}

namespace detail {

inline void add_batch_storages(StepBuilder& builder, StepBuilder::MicroBatch& storages,
                               const BatchStorages& of_phase, int k, const std::string& suffix) {
  const graph::Dag& dag = *builder.plan.dag;
  schedule::Program& program = builder.program;
  const Bytes element = builder.plan.sum_bytes();
  Bytes batch_bytes = 0;
  for (const int input : dag.inputs) batch_bytes += round_up(dag.tensor_at(input).spec.bytes(), 64);
  storages.batch = program.add_storage("batch" + suffix, batch_bytes, Place::device);
  Bytes offset = 0;
  for (const int input : dag.inputs) {
    const graph::Tensor& tensor = dag.tensor_at(input);
    storages.tensors[static_cast<std::size_t>(input)] =
        program.add_part(tensor.name + suffix, storages.batch, offset, tensor.spec.bytes());
    offset += round_up(tensor.spec.bytes(), 64);
  }
  if (builder.reports_loss()) {
    storages.loss = program.add_part("loss" + suffix, of_phase.losses,
                                     static_cast<Bytes>(k) * element, element);
  }
  storages.loss_weight = program.add_part("loss weight" + suffix, of_phase.loss_weights,
                                          static_cast<Bytes>(k) * element, element);
  const auto loss = static_cast<std::size_t>(dag.loss);
  if (builder.reports_loss()) {
    storages.tensors[loss] = storages.loss;
    storages.gradients[loss] = storages.loss_weight;
  }
}

/// Storages of a micro-batch for what segment s reads, writes and keeps.
inline void add_segment_storages(StepBuilder& builder, StepBuilder::MicroBatch& storages, int s,
                                 const std::string& suffix) {
  const StepPlan& plan = builder.plan;
  const graph::Dag& dag = *plan.dag;
  schedule::Program& program = builder.program;
  const auto index = static_cast<std::size_t>(s);
  const graph::Segment& segment = plan.segments[index];
  const auto add_tensors = [&](const std::vector<int>& ids) {
    for (const int id : ids) {
      StorageId& storage = storages.tensors[static_cast<std::size_t>(id)];
      const graph::Tensor& tensor = dag.tensor_at(id);
      if (storage != no_storage) continue;
      storage = program.add_storage(tensor.name + suffix, tensor.spec.bytes(), Place::device);
    }
  };
  // Of a tensor between stages each side has a gradient of its own: the one who computes the tensor, and the one
  // who reads it.
  const auto add_gradients = [&](const std::vector<int>& ids) {
    for (const int id : ids) {
      StorageId& storage = storages.gradients[static_cast<std::size_t>(id)];
      const graph::Tensor& tensor = dag.tensor_at(id);
      if (storage != no_storage) continue;
      storage = program.add_storage(concat("gradient of ", tensor.name, suffix),
                                    tensor.spec.bytes(), Place::device);
    }
  };
  add_tensors(segment.boundary_inputs);
  add_tensors(segment.boundary_outputs);
  add_gradients(segment.output_gradients);
  add_gradients(segment.input_gradients);
  const std::string where = concat(" of segment ", s, suffix);
  const bool trains = builder.trains();
  const bool again = trains && plan.recomputes_segment(index);
  const auto add = [&](const char* what, Bytes bytes) {
    return program.add_storage(what + where, bytes, Place::device);
  };
  for (const int id : segment.recompute_writes) {
    const graph::Tensor& tensor = dag.tensor_at(id);
    if (!again) break;
    storages.recomputed[static_cast<std::size_t>(id)] = program.add_storage(
        tensor.name + " recomputed" + suffix, tensor.spec.bytes(), Place::device);
  }
  storages.saved[index] = add("saved", trains ? segment.saved_bytes : 0);
  storages.forward_workspace[index] =
      add("forward workspace", trains && !again ? segment.forward_workspace_bytes
                                                : segment.inference_workspace_bytes);
  storages.recompute_workspace[index] =
      add("recompute workspace", again ? segment.forward_workspace_bytes : 0);
  storages.backward_workspace[index] =
      add("backward workspace", trains ? segment.backward_workspace_bytes : 0);
  if (!trains || plan.halves.empty()) return;
  const graph::Segment& halves = plan.halves[index];
  storages.input_workspace[index] = add("input half's workspace", halves.backward_workspace_bytes);
  storages.weight_workspace[index] = add("weight half's workspace", halves.weight_half_workspace_bytes);
  storages.pending[index] = add("pending gradients", halves.pending_bytes);
}

}  // namespace detail

REEF_INLINE int add_micro_batches(StepBuilder& builder) {
  const StepPlan& plan = builder.plan;
  const graph::Dag& dag = *plan.dag;
  schedule::Program& program = builder.program;
  const int count = builder.phase.one_micro_batch ? 1 : plan.micro_batches_of(builder.rank());
  const int first = static_cast<int>(builder.micro_batches.size());
  const int before = builder.phase.before * plan.micro_batches_in_all() +
                     plan.micro_batches_before(builder.rank());
  const bool fills = reads_batches(builder);
  const Bytes element = static_cast<Bytes>(count) * plan.sum_bytes();
  detail::BatchStorages of_phase;
  if (builder.reports_loss())
    of_phase.losses = program.add_storage("losses", element, Place::device);
  if (fills) of_phase.loss_weights = program.add_storage("loss weights", element, Place::device);

  for (int k = 0; k < count; ++k) {
    const std::string suffix = concat(" of micro-batch ", first + k);
    StepBuilder::MicroBatch storages;
    storages.number = before + k;
    for (auto* const by_tensor : {&storages.tensors, &storages.gradients, &storages.recomputed}) {
      by_tensor->assign(dag.tensors.size(), no_storage);
    }
    for (auto* const by_segment :
         {&storages.saved, &storages.forward_workspace, &storages.recompute_workspace,
          &storages.backward_workspace, &storages.input_workspace, &storages.weight_workspace,
          &storages.pending}) {
      by_segment->assign(plan.segments.size(), no_storage);
    }
    if (fills) detail::add_batch_storages(builder, storages, of_phase, k, suffix);
    for (const int s : builder.segments()) {
      detail::add_segment_storages(builder, storages, s, suffix);
    }
    builder.micro_batches.push_back(std::move(storages));
  }
  for (int j = first; fills && j < first + count; ++j) {
    const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
    const BatchView batch(builder, program.add(kinds::batch, Lane::source, -1, j), Lists::added);
    batch.inputs.set(values_of(storages.tensors, dag.inputs));
    batch.loss_weight.front() = {storages.loss_weight, 0};
  }
  // A stage computes by the numbers of its micro-batches, also where it reads none of what Batch brings, or only later.
  const bool counts = plan.adapts && plan.topology.stages > 1 && builder.trains();
  for (int j = first; counts && j < first + count; ++j) {
    Instruction& number = program.add(kinds::number, Lane::compute, -1, j);
    set_claims_number(number, !fills);
    if (fills) number.after = {{builder.micro_batches[static_cast<std::size_t>(j)].loss_weight, 0}};
  }
  return first;
}

REEF_INLINE void add_forward(StepBuilder& builder, int s, int j) {
  const graph::Segment& segment = builder.plan.segments[static_cast<std::size_t>(s)];
  const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
  Instruction& forward = builder.program.add(kinds::forward, Lane::compute, s, j);
  const ForwardView view(builder, forward, Lists::added);
  view.weights.set(builder.weights_of(segment));
  view.inputs.set(values_of(storages.tensors, segment.boundary_inputs));
  view.outputs.set(values_of(storages.tensors, segment.boundary_outputs));
  if (!view.saved.empty()) view.saved.front() = {storages.saved[static_cast<std::size_t>(s)], 0};
  view.workspace.front() = {storages.forward_workspace[static_cast<std::size_t>(s)], 0};
  forward.cost.flops = segment.forward_flops;
}

REEF_INLINE void add_recompute(StepBuilder& builder, int s, int j) {
  const auto index = static_cast<std::size_t>(s);
  const graph::Segment& segment = builder.plan.segments[index];
  const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
  Instruction& recompute = builder.program.add(kinds::recompute, Lane::compute, s, j);
  const RecomputeView view(builder, recompute, Lists::added);
  view.weights.set(builder.weights_of(segment));
  view.inputs.set(values_of(storages.tensors, segment.recompute_reads));
  view.outputs.set(values_of(storages.recomputed, segment.recompute_writes));
  view.saved.front() = {storages.saved[index], 0};
  view.workspace.front() = {storages.recompute_workspace[index], 0};
  recompute.cost.flops = segment.recompute_flops;
}

namespace detail {

/// What a backward reads of boundary tensors: its own where a Recompute has them.
inline std::vector<Value> backward_tensors(const StepBuilder& builder, const std::vector<int>& ids,
                                           int first_node,
                                           const StepBuilder::MicroBatch& storages) {
  std::vector<Value> values;
  for (const int id : ids) {
    const auto tensor = static_cast<std::size_t>(id);
    const StorageId again = storages.recomputed[tensor];
    const bool own = builder.plan.dag->tensor_at(id).producer >= first_node;
    values.push_back({own && again != no_storage ? again : storages.tensors[tensor], 0});
  }
  return values;
}

REEF_INLINE const std::vector<Value>& unrounded(StepBuilder& builder, int s, int j,
                                                const std::vector<Value>& gradients) {
  std::vector<Value>& own = builder.micro_batches[static_cast<std::size_t>(j)].rounded[s];
  for (std::size_t k = own.size(); k < gradients.size(); ++k) {
    const schedule::Storage storage = builder.program.storages[gradients[k].storage];
    const Bytes bytes = storage.bytes / builder.plan.gradient_bytes() * builder.plan.sum_bytes();
    own.push_back({builder.program.add_storage(concat(storage.name, " of micro-batch ", j), bytes,
                                               Place::device),
                   0});
  }
  return own;
}

/// Appends `AddGradients(segment, j)`.
inline void add_rounding(StepBuilder& builder, int s, int j, const std::vector<Value>& gradients,
                         bool begins) {
  Instruction add;
  add.kind = kinds::add_gradients;
  add.lane = Lane::compute;
  add.index = s;
  add.micro_batch = j;
  set_sum_mode(add, begins);
  const AddGradientsView view(builder, add, Lists::added);
  view.gradients.set(gradients);
  view.from.set(unrounded(builder, s, j, gradients));
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    const std::vector<schedule::Storage>& storages = builder.program.storages;
    add.cost.bytes += storages[view.from[k].storage].bytes +
                      (begins ? 1 : 2) * storages[gradients[k].storage].bytes;
  }
  builder.program.round.push_back(std::move(add));
}

REEF_INLINE void add_backward(StepBuilder& builder, std::string_view kind, int s, int j, int fold,
                              bool first_of_fold) {
  const auto index = static_cast<std::size_t>(s);
  const bool begins = first_of_fold && !builder.phase.continues;
  const bool rounds = builder.plan.rounds_gradients();
  Instruction& backward = builder.program.add(kind, Lane::compute, s, j);
  set_sum_mode(backward, begins || rounds);
  const BackwardView view(builder, backward, Lists::added);
  const graph::Segment& segment = view.segment();
  const StepBuilder::MicroBatch& storages = builder.micro_batches[static_cast<std::size_t>(j)];
  const bool whole = view.part() == graph::BackwardPart::all;
  const bool weight = view.part() == graph::BackwardPart::weight;
  view.weights.set(builder.weights_of(segment));
  view.tensors.set(backward_tensors(builder, view.tensor_ids(), segment.first, storages));
  view.saved.front() = {storages.saved[index], 0};
  view.output_gradients.set(values_of(storages.gradients, view.output_gradient_ids()));
  for (std::size_t k = 0; !weight && k < segment.input_gradients.size(); ++k) {
    view.input_gradient(k).front() = {
        storages.gradients[static_cast<std::size_t>(segment.input_gradients[k])], 0};
  }
  const auto& workspaces = whole    ? storages.backward_workspace
                           : weight ? storages.weight_workspace
                                    : storages.input_workspace;
  view.workspace.front() = {workspaces[index], 0};
  if (!view.pending.empty()) view.pending.front() = {storages.pending[index], 0};
  backward.cost.flops = whole    ? segment.backward_flops
                        : weight ? segment.weight_half_flops
                                 : segment.backward_flops - segment.weight_half_flops;
  if (view.part() == graph::BackwardPart::input && view.gradients.empty()) return;
  const std::vector<Value> gradients = builder.gradients_of(s, fold);
  view.gradients.set(rounds ? unrounded(builder, s, j, gradients) : gradients);
  if (rounds && (whole || weight)) add_rounding(builder, s, j, gradients, begins);
}

REEF_INLINE void require_halves(const StepBuilder& builder, int s) {
  if (!builder.plan.halves.empty()) return;
  throw ScheduleError("reef::run: half a backward of segment ", s, ", but the plan has whole ones.\n"
                      "  fix: plan.split_backwards() in the policy's plan().");
}

}  // namespace detail

REEF_INLINE void add_input_backward(StepBuilder& builder, int s, int j, int fold, bool first_of_fold) {
  detail::require_halves(builder, s);
  if (!keeps(builder, s)) add_recompute(builder, s, j);
  detail::add_backward(builder, kinds::backward_input, s, j, fold, first_of_fold);
}

REEF_INLINE void add_folds(StepBuilder& builder, int fold) {
  if (builder.keeps_gradients() || builder.phase.one_micro_batch) return;  // of a loop's sums when it has ended
  add_tied_gradients(builder, fold, builder.phase.gradients, builder.phase.gradients);
  const StepPlan& plan = builder.plan;
  schedule::Program& program = builder.program;
  for (auto held = builder.stage_buckets().rbegin(); held != builder.stage_buckets().rend(); ++held) {
    const std::size_t b = *held;
    const StepBuilder::Accumulators& sums = builder.accumulators_of(fold);
    const Value gradient{sums.buckets[b], builder.phase.gradients};
    if (const std::vector<int> uses = builder.tied_uses(b); !uses.empty()) {
      Instruction& add = program.add(kinds::fold_uses, Lane::compute, static_cast<int>(b));
      const FoldUsesView view(builder, add, Lists::added);
      view.gradient.front() = gradient;
      view.uses.set(values_of(sums.uses, uses, builder.phase.gradients));
      for (const Value use : view.uses) {
        add.cost.bytes += 3 * program.storages[use.storage].bytes;  // both are read, and one written
      }
    }
    if (plan.virtual_ranks == 1) continue;
    Instruction& rank = program.add(kinds::fold_rank, Lane::compute, static_cast<int>(b));
    set_sum_mode(rank, fold == 0);
    const FoldRankView view(rank, Lists::added);
    view.gradient.front() = gradient;
    view.sum.front() = {builder.reduced[b], 0};
    rank.cost.bytes = (fold == 0 ? 1 : 2) * program.storages[builder.reduced[b]].bytes +
                      program.storages[gradient.storage].bytes;
  }
}

}  // namespace run
}  // namespace v0
}  // namespace reef
