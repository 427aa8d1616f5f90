#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <reef/comm/call_task.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/run/executor.hpp>
#include <reef/run/memory.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::inline v0::run {

/// Fills the graph's inputs for the samples first_sample, first_sample + 1, ... of one micro-batch, in
/// host memory, and returns the micro-batch's loss weight: 1, or its count of tokens.
///
/// Called on the progress thread; equal calls give equal bytes.
using Source = std::function<double(std::uint64_t first_sample, std::span<const AnyView> inputs)>;

/// What changes from step to step, set between rounds.
struct StepState {
  std::uint64_t seed = 0;
  std::uint64_t micro_batch = 0;   ///< of all ranks, since the start of training
  std::int64_t committed = 0;      ///< optimizer steps that changed the weights
  double learning_rate = 0;
};

/// One rank's program with all that its code works on. Everything outlives the executor.
template <device::device Device, real T>
struct Site {
  const StepBuilder& builder;        ///< its program is the one before staging: storages keep their ids
  const Memory<Device>& memory;
  const graph::Graph<Device, T>& graph;
  const Source& source;
  const StepState& state;

  [[nodiscard]] const StepPlan& plan() const { return builder.plan; }
  [[nodiscard]] int rank() const { return builder.rank(); }
  [[nodiscard]] const schedule::Storage& storage(Value value) const {
    return memory.program().storages[value.storage];
  }
  [[nodiscard]] std::int64_t elements(Value value) const {
    return static_cast<std::int64_t>(storage(value).bytes / sizeof(T));
  }
  [[nodiscard]] T* at(Value value) const { return memory.template at<T>(value.storage); }

  /// The global index of the first sample of micro-batch j of this rank in the current step.
  [[nodiscard]] std::uint64_t first_sample(int j) const {
    const int before = plan().micro_batches_before(rank()) + j;
    const graph::Tensor& input = plan().dag->tensor_at(plan().dag->inputs.at(0));
    const auto samples = static_cast<std::uint64_t>(input.spec.shape.rank() == 0 ? 1 : input.spec.shape[0]);
    return (state.micro_batch + static_cast<std::uint64_t>(before)) * samples;
  }
};

namespace detail {

template <device::device Device, real T>
graph::SegmentBindings bind_segment(const Site<Device, T>& site, int s, int j, bool backward) {
  const StepBuilder& builder = site.builder;
  const StepPlan& plan = site.plan();
  const auto& storages = builder.micro_batches[static_cast<std::size_t>(j)];
  const auto segment = static_cast<std::size_t>(s);
  graph::SegmentBindings bindings(*plan.dag);
  const auto bind = [&](std::vector<void*>& table, const std::vector<StorageId>& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != no_storage) table[i] = site.memory.at(ids[i]);
    }
  };
  bind(bindings.tensors, storages.tensors);
  bind(bindings.gradients, storages.gradients);
  const auto element_of_bucket = [&](const std::vector<StorageId>& buckets, std::size_t parameter) {
    const auto b = static_cast<std::size_t>(plan.bucket_of_parameter[parameter]);
    return site.memory.template at<T>(buckets[b]) +
           (plan.layout.parameters[parameter] - plan.buckets[b].begin);
  };
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    bindings.parameters[p] = element_of_bucket(builder.weights, p);
    for (const int use : plan.dag->parameters[p].uses) {
      const StorageId extra = builder.extra_gradients[static_cast<std::size_t>(use)];
      bindings.use(use) = extra != no_storage ? site.memory.template at<void>(extra)
                                              : static_cast<void*>(element_of_bucket(builder.gradients, p));
    }
  }
  bindings.saved = site.memory.at(storages.saved[segment]);
  bindings.workspace = site.memory.at(
      (backward ? storages.backward_workspace : storages.forward_workspace)[segment]);
  return bindings;
}

/// Copies between a storage of the device and its twin on the host.
template <device::device Device, real T>
auto copies(const Site<Device, T>& site, device::Copy direction) {
  return [&site, direction](const Instruction& instruction) -> typename Handlers<Device>::Code {
    struct Range {
      void* to;
      const void* from;
      Bytes bytes;
    };
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < instruction.reads.size(); ++i) {
      ranges.push_back({site.memory.at(instruction.writes[i].storage),
                        site.memory.at(instruction.reads[i].storage),
                        site.storage(instruction.reads[i]).bytes});
    }
    return [ranges = std::move(ranges), direction](typename Device::Lane& lane) {
      for (const Range& range : ranges) lane.copy(range.to, range.from, range.bytes, direction);
    };
  };
}

}  // namespace detail

/// Adds the code of Batch, Forward, Backward, FoldUses, FoldRank, Download and Upload.
template <device::device Device, real T>
void add_step_code(Handlers<Device>& handlers, const Site<Device, T>& site) {
  using DeviceLane = typename Device::Lane;
  using Code = typename Handlers<Device>::Code;
  using Communication = typename Handlers<Device>::Communication;
  const bool trains = site.builder.purpose == Purpose::training;

  handlers.on_wire("Batch", [&site](const Instruction& batch) -> Communication {
    const graph::Dag& dag = *site.plan().dag;
    std::vector<AnyView> inputs;
    for (std::size_t i = 0; i < dag.inputs.size(); ++i) {
      const graph::TensorSpec& spec = dag.tensor_at(dag.inputs[i]).spec;
      inputs.emplace_back(site.memory.at(batch.writes[i].storage), spec.shape, spec.element);
    }
    T* const weight = site.at(batch.writes.back());
    return {std::make_shared<comm::CallTask>(
        "batch", [&site, inputs, weight, j = batch.micro_batch] {
          *weight = static_cast<T>(site.source(site.first_sample(j), inputs));
        })};
  });

  handlers.on_lane("Forward", [&site, trains](const Instruction& forward) -> Code {
    const int j = forward.micro_batch;
    const auto& segment = site.plan().segments[static_cast<std::size_t>(forward.index)];
    return [&site, &segment, trains, j,
            bindings = detail::bind_segment(site, forward.index, j, false)](DeviceLane& lane) {
      site.graph.forward(segment, bindings, lane, {site.state.seed, site.first_sample(j), 0, 0}, trains);
    };
  });

  handlers.on_lane("Backward", [&site](const Instruction& backward) -> Code {
    const int j = backward.micro_batch;
    const auto& segment = site.plan().segments[static_cast<std::size_t>(backward.index)];
    // The first micro-batch of a fold overwrites the gradients: they stand among the writes.
    const std::vector<Value> gradients = site.builder.gradients_of(backward.index);
    const bool accumulate =
        !gradients.empty() && std::find(backward.writes.begin(), backward.writes.end(),
                                        gradients.front()) == backward.writes.end();
    return [&site, &segment, j, accumulate,
            bindings = detail::bind_segment(site, backward.index, j, true)](DeviceLane& lane) {
      site.graph.backward(segment, bindings, lane, {site.state.seed, site.first_sample(j), 0, 0},
                          accumulate);
    };
  });

  handlers.on_lane("FoldUses", [&site](const Instruction& fold) -> Code {
    struct Addition {
      T* to;
      const T* from;
      std::int64_t elements;
    };
    const StepPlan& plan = site.plan();
    std::vector<Addition> additions;
    for (const Value extra : fold.reads) {
      for (std::size_t use = 0; use < plan.dag->uses.size(); ++use) {
        if (site.builder.extra_gradients[use] != extra.storage) continue;
        const auto p = static_cast<std::size_t>(plan.dag->uses[use].parameter);
        const Bucket& bucket = plan.buckets[static_cast<std::size_t>(fold.index)];
        additions.push_back({site.at(fold.accumulates[0]) + (plan.layout.parameters[p] - bucket.begin),
                             site.at(extra), plan.dag->parameters[p].spec.shape.size()});
      }
    }
    return [additions = std::move(additions)](DeviceLane& lane) {
      for (const Addition& a : additions) {
        nn::Kernels<Device>::template copy_or_add<T>(lane, a.to, a.from, a.elements, true);
      }
    };
  });

  handlers.on_lane("FoldRank", [&site](const Instruction& fold) -> Code {
    const bool accumulate = !fold.accumulates.empty();
    const Value target = accumulate ? fold.accumulates[0] : fold.writes[0];
    return [to = site.at(target), from = site.at(fold.reads[0]), n = site.elements(target),
            accumulate](DeviceLane& lane) {
      nn::Kernels<Device>::template copy_or_add<T>(lane, to, from, n, accumulate);
    };
  });

  handlers.on_lane("Download", detail::copies(site, device::Copy::to_host));
  handlers.on_lane("Upload", detail::copies(site, device::Copy::to_device));
}

}  // namespace reef::inline v0::run
