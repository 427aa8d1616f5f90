#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/kinds.hpp>
#include <reef/optim/views.hpp>
#include <reef/run/executable.hpp>

namespace reef {
inline namespace v0 {

/// The memory, computation and messages of one step of training on one rank, known before anything is allocated or
/// sent.
///
/// | weights to rest | bytes of the tensors of each kind, on the device or in host memory, as if     |
/// |                 | no two shared memory; `rest` includes slots for swapping                      |
/// | device_bytes    | device memory of a step: tensors that are never alive together share it       |
/// | host_bytes      | pinned memory: the step's scalars, staged messages of a discrete device, and, |
/// |                 | if the model is swapped, weights, gradients, optimizer state and stashes      |
/// | heap_bytes      | device memory that operators (libtorch modules) allocate outside the plan:    |
/// |                 | all that this rank's operators keep for their backwards, in any order, and    |
/// |                 | the most that one call needs in addition                                      |
/// | flops           | forward, recomputation and backward of this rank's micro-batches, as the      |
/// |                 | operators count; and the products of an update rule of whole matrices         |
/// | sent, messages  | bytes and messages over the wire, headers included, heartbeats excluded.      |
/// |                 | Reductions in shared memory of one node send none: comm::Meter counts their   |
/// |                 | bytes apart                                                                   |
/// | steps           | number of steps that flops, sent and messages cover: 1, or with DiLoCo the H  |
/// |                 | steps from one outer step to the next. A loop of adaptive accumulation counts |
/// |                 | with one iteration                                                            |
///
/// \code
/// #include <cstdio>
/// // given: const graph::Graph<device::Host, float>& model
/// using MyTrainer = Trainer<optim::Ddp<optim::AdamW>>;
/// const StepEstimate step = MyTrainer::estimate(model, MyTrainer::Options{}, 4);  // on 4 ranks
/// std::puts(step.text().c_str());
/// \endcode
struct StepEstimate {
  Bytes weights = 0;
  Bytes gradients = 0;
  /// Bytes of buffers for communication that overlaps, which send gradients and receive weights.
  Bytes comm_buffers = 0;
  Bytes optimizer_state = 0;  ///< bytes of the update rule's state, and of master weights
  Bytes activations = 0;
  Bytes workspaces = 0;
  Bytes rest = 0;  ///< bytes of all other tensors: batches, sums, scalars
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
  Bytes heap_bytes = 0;
  double flops = 0;
  Bytes sent = 0;
  std::uint64_t messages = 0;
  std::int64_t steps = 1;

  /// Returns the estimate as text, with a line for each figure.
  [[nodiscard]] std::string text() const {
    return concat("weights ", format_bytes(weights), "\ngradients ", format_bytes(gradients),
                  "\ncommunication buffers ", format_bytes(comm_buffers), "\noptimizer state ",
                  format_bytes(optimizer_state), "\nactivations ", format_bytes(activations),
                  "\nworkspaces ", format_bytes(workspaces), "\nrest ", format_bytes(rest),
                  "\ndevice memory in all ", format_bytes(device_bytes), "\npinned host memory ",
                  format_bytes(host_bytes),
                  heap_bytes > 0 ? concat("\nbeside these, of operators ", format_bytes(heap_bytes)) : "",
                  "\nfloating-point operations ", flops, "\nsent ",
                  format_bytes(sent), " in ", messages, " messages",
                  steps > 1 ? concat(", both in ", steps, " steps") : "", "\n");
  }
};

namespace detail {

/// Adds the operations and messages of `rounds` runs of a rank's program to an estimate.
inline void add_work(StepEstimate& result, const schedule::Program& program, std::int64_t rounds) {
  for (const schedule::Instruction& instruction : program.round) {
    if (instruction.lane == schedule::Lane::compute || instruction.lane == schedule::Lane::update)
      result.flops += static_cast<double>(rounds) * instruction.cost.flops;
    for (const schedule::Message& message : instruction.sends) {
      result.sent += static_cast<Bytes>(rounds) * message.bytes;
      result.messages += static_cast<std::uint64_t>(rounds) * message.pieces;
    }
  }
}

/// Raises device_bytes and host_bytes to the sizes of arenas that a program's memory offsets need.
inline void add_arenas(StepEstimate& result, const schedule::Placement& placement) {
  result.device_bytes = (std::max)(result.device_bytes, placement.device_bytes);
  result.host_bytes = (std::max)(result.host_bytes, placement.host_bytes);
}

/// Returns the estimate of memory and work for a training program that is alone in its arenas; `work` has the sums of
/// add_work().
inline StepEstimate estimate_of(const run::PlacedProgram& training,
                                const std::vector<optim::StateRange>& state,
                                const StepEstimate& work) {
  const run::StepBuilder& builder = training.builder;
  const schedule::Program& program = builder.program;
  std::vector<Bytes StepEstimate::*> kind(program.storages.size(), &StepEstimate::rest);
  const auto mark = [&](schedule::StorageId id, Bytes StepEstimate::*term) {
    if (id != schedule::no_storage) kind[id] = term;
  };
  for (const auto* ids : {&builder.weights, &builder.tied_weights, &builder.frozen}) {
    for (const auto id : *ids) mark(id, &StepEstimate::weights);
  }
  for (const optim::StateRange& range : state) {
    using Distribution = optim::StateRange::Distribution;
    if (range.distribution == Distribution::ahead) continue;
    mark(program.region_of(range.storage).first, &StepEstimate::optimizer_state);
  }
  for (const auto* ids : {&builder.comm_buffer, &builder.tied_buffer}) {
    for (const auto id : *ids) mark(id, &StepEstimate::comm_buffers);
  }
  for (const auto id : builder.reduced) mark(id, &StepEstimate::gradients);
  for (const run::StepBuilder::Accumulators& sums : builder.accumulators) {
    for (const auto* ids : {&sums.buckets, &sums.uses}) {
      for (const auto id : *ids) mark(id, &StepEstimate::gradients);
    }
  }
  for (const run::StepBuilder::MicroBatch& j : builder.micro_batches) {
    for (const auto* ids : {&j.tensors, &j.gradients, &j.recomputed, &j.saved, &j.pending}) {
      for (const auto id : *ids) mark(id, &StepEstimate::activations);
    }
    for (const auto* ids : {&j.forward_workspace, &j.recompute_workspace, &j.backward_workspace,
                            &j.input_workspace, &j.weight_workspace}) {
      for (const auto id : *ids) mark(id, &StepEstimate::workspaces);
    }
  }
  for (const schedule::Instruction& i : program.round) {
    if (!builder.plan.matrices.needed() || i.kind != optim::kinds::update) continue;
    mark(optim::UpdateView(builder, i, 0).workspace.front().storage, &StepEstimate::workspaces);
  }

  StepEstimate result = work;
  for (std::size_t id = 0; id < program.storages.size(); ++id) {
    const schedule::Storage& storage = program.storages[id];
    if (storage.parent == schedule::no_storage) result.*kind[id] += storage.bytes;
  }
  Bytes kept = 0;
  Bytes called = 0;  // the most bytes that one call needs beside those that it keeps
  for (const int s : builder.segments()) {
    const graph::Segment& segment = builder.plan.segments[static_cast<std::size_t>(s)];
    for (int n = segment.first; n < segment.last; ++n) {
      const graph::Signature& of_node = builder.plan.dag->node_at(n).signature;
      kept += of_node.kept_heap_bytes;
      called = (std::max)(
          called, of_node.heap_bytes - (std::min)(of_node.heap_bytes, of_node.kept_heap_bytes));
    }
  }
  result.heap_bytes = kept + called;
  add_arenas(result, training.placement);
  return result;
}

}  // namespace detail

}  // namespace v0
}  // namespace reef
