#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/call_task.hpp>
#include <reef/comm/collectives.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/device/transform.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/run/executor.hpp>
#include <reef/run/memory.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::inline v0::run {

/// Fills the graph's inputs for the samples first_sample, first_sample + 1, ... of one micro-batch, in
/// host memory, and returns the micro-batch's loss weight: 1, or its count of tokens.
///
/// Called on a thread of its own, one call after another; it may take its time. Equal calls give equal
/// bytes.
using Source = std::function<double(std::uint64_t first_sample, std::span<const AnyView> inputs)>;

/// Says which of the job's micro-batches a rank's next one is, where its count is its own affair: called
/// as a Source is. If it is empty, the plan says so.
using NextMicroBatch = std::function<std::uint64_t()>;

/// What changes from step to step, set between rounds.
struct StepState {
  std::uint64_t seed = 0;
  std::uint64_t micro_batch = 0;  ///< of all ranks, that the steps so far have used up
  std::int64_t committed = 0;     ///< optimizer steps that changed the weights
  double learning_rate = 0;
  double next_learning_rate = 0;  ///< of the step after this one
  std::int64_t began = 0;         ///< steps after which ranks last began at the same weights
};

/// One rank's program with all that its code works on. Everything outlives the executor.
///
/// It is also the door to the ranks: what a policy's code exchanges, it asks the Site for.
template <device::device Device, real T, real Gradient = sum_t<T>>
struct Site {
  using device_type = Device;
  using element_type = T;          ///< of weights
  using sum_type = sum_t<T>;       ///< of what is computed from them, of losses and optimizer state
  using gradient_type = Gradient;  ///< of their gradients where they are kept and sent
  using Communication = typename Handlers<Device>::Communication;

  const StepBuilder& builder;  ///< its program is the one before staging: storages keep their ids
  const Memory<Device>& memory;
  const graph::Graph<Device, T>& graph;
  const Source& source;
  const NextMicroBatch& own_order;  ///< empty: the plan's
  const StepState& state;
  std::vector<std::uint64_t>& numbers;  ///< by micro-batch of this rank: which of the job's it is

  [[nodiscard]] const StepPlan& plan() const { return builder.plan; }
  [[nodiscard]] int rank() const { return builder.rank(); }
  [[nodiscard]] const schedule::Storage& storage(Value value) const {
    return memory.program().storages[value.storage];
  }
  /// Of what is summed, unless another type is given.
  template <class U = sum_type>
  [[nodiscard]] std::int64_t elements(Value value) const {
    return static_cast<std::int64_t>(storage(value).bytes / sizeof(U));
  }
  template <class U = sum_type>
  [[nodiscard]] U* at(Value value) const {
    return memory.template at<U>(value.storage);
  }
  template <class U = sum_type>
  [[nodiscard]] std::span<U> span(Value value) const {
    return {memory.template at<U>(value.storage),
            static_cast<std::size_t>(storage(value).bytes / sizeof(U))};
  }

  /// The owner of each shard folds all ranks' chunks of it: comm::ReduceScatterTask.
  [[nodiscard]] Communication reduce_scatter(std::string name, Value whole, Value shard,
                                             std::vector<std::int64_t> offsets) const {
    return {std::make_shared<comm::ReduceScatterTask<Gradient, sum_type>>(
        std::move(name), span<Gradient>(whole), span(shard), std::move(offsets))};
  }

  /// Every rank gets the shards of all: comm::AllGatherTask.
  template <class U>
  [[nodiscard]] static Communication all_gather(std::string name, std::span<const U> shard,
                                                std::span<U> whole,
                                                std::vector<std::int64_t> offsets) {
    return {std::make_shared<comm::AllGatherTask<U>>(std::move(name), shard, whole,
                                                     std::move(offsets))};
  }

  /// A function of this rank alone, between its messages: comm::CallTask.
  [[nodiscard]] static Communication call(std::string name, std::function<void()> function) {
    return {std::make_shared<comm::CallTask>(std::move(name), std::move(function))};
  }

  /// Code that copies what an instruction reads to what it writes, one by one.
  [[nodiscard]] typename Handlers<Device>::Code copies(const Instruction& instruction,
                                                       device::Copy direction) const {
    struct Range {
      void* to;
      const void* from;
      Bytes bytes;
    };
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < instruction.writes.size(); ++i) {
      ranges.push_back({memory.at(instruction.writes[i].storage),
                        memory.at(instruction.reads[i].storage),
                        storage(instruction.writes[i]).bytes});
    }
    return [ranges = std::move(ranges), direction](typename Device::Lane& lane) {
      for (const Range& range : ranges) lane.copy(range.to, range.from, range.bytes, direction);
    };
  }

  /// Code that adds the gradients of further uses of tied parameters, as StepBuilder::further_uses lists
  /// them for bucket b, to where the bucket's gradient is.
  [[nodiscard]] typename Handlers<Device>::Code adds_uses(int b, Value gradient,
                                                          std::span<const Value> uses) const {
    struct Addition {
      Gradient* to;
      const Gradient* from;
      std::int64_t elements;
    };
    std::vector<Addition> additions;
    const auto bucket = static_cast<std::size_t>(b);
    std::size_t next = 0;
    for (const int use : builder.further_uses(bucket)) {
      const auto p = static_cast<std::size_t>(plan().dag->use_at(use).parameter);
      additions.push_back(
          {at<Gradient>(gradient) + (plan().layout.parameters[p] - plan().buckets[bucket].begin),
           at<Gradient>(uses[next++]), plan().dag->parameters[p].spec.shape.size()});
    }
    return [additions = std::move(additions)](typename Device::Lane& lane) {
      for (const Addition& a : additions) {
        nn::Kernels<Device>::template copy_or_add<Gradient>(lane, a.to, a.from, a.elements, true);
      }
    };
  }

  /// Settles which of the job's micro-batches micro-batch j of this rank is now: for its Batch.
  void take(int j) const {
    const auto index = static_cast<std::size_t>(j);
    const auto planned = static_cast<std::uint64_t>(builder.micro_batches[index].number);
    numbers[index] = own_order ? own_order() : state.micro_batch + planned;
  }

  /// The global index of the first sample of micro-batch j of this rank, once its Batch has run.
  [[nodiscard]] std::uint64_t first_sample(int j) const {
    const graph::Tensor& input = plan().dag->tensor_at(plan().dag->inputs.at(0));
    const auto samples =
        static_cast<std::uint64_t>(input.spec.shape.rank() == 0 ? 1 : input.spec.shape[0]);
    return numbers[static_cast<std::size_t>(j)] * samples;
  }
};

namespace detail {

/// Reads an instruction's operands in the order in which `add_forward` and `add_backward` state them, so
/// that a pass that gives an operand another storage changes where the code works.
template <device::device Device, real T, real Gradient>
class Operands {
public:
  Operands(const Site<Device, T, Gradient>& site, int segment)
      : site_(site), s_(segment), bindings_(*site.plan().dag) {}

  /// The addresses of a Forward.
  static graph::SegmentBindings of_forward(const Site<Device, T, Gradient>& site,
                                           const Instruction& forward) {
    Operands operands(site, forward.index);
    Cursor reads{forward.reads};
    Cursor writes{forward.writes};
    operands.weights(reads);
    operands.bind(operands.bindings_.tensors, operands.segment().boundary_inputs, reads);
    operands.bind(operands.bindings_.tensors, operands.segment().boundary_outputs, writes);
    if (site.builder.trains()) operands.bindings_.saved = operands.next(writes);
    operands.bindings_.workspace = operands.next(writes);
    return std::move(operands.bindings_);
  }

  /// The addresses of a Backward.
  static graph::SegmentBindings of_backward(const Site<Device, T, Gradient>& site,
                                            const Instruction& backward) {
    Operands operands(site, backward.index);
    const graph::Segment& segment = operands.segment();
    Cursor reads{backward.reads};
    Cursor writes{backward.writes};
    Cursor sums{backward.accumulates};
    operands.weights(reads);
    operands.bind(operands.bindings_.tensors, segment.backward_reads, reads);
    operands.bindings_.saved = operands.next(reads);
    operands.bind(operands.bindings_.gradients, segment.output_gradients, reads);
    for (std::size_t i = 0; i < segment.input_gradients.size(); ++i) {
      operands.bindings_.gradient(segment.input_gradients[i]) =
          operands.next(segment.input_gradient_accumulates[i] ? sums : writes);
    }
    operands.bindings_.workspace = operands.next(writes);
    operands.gradients(overwrites_gradients(site.builder, backward) ? writes : sums);
    return std::move(operands.bindings_);
  }

  /// The addresses of the gradients of a segment's uses, from operands as `gradients_of` lists them.
  static std::vector<void*> of_gradients(const Site<Device, T, Gradient>& site, int segment,
                                         const std::vector<Value>& values) {
    Operands operands(site, segment);
    Cursor cursor{values};
    operands.gradients(cursor);
    return std::move(operands.bindings_.uses);
  }

private:
  struct Cursor {
    const std::vector<Value>& values;
    std::size_t at = 0;
  };

  [[nodiscard]] const graph::Segment& segment() const {
    return site_.plan().segments[static_cast<std::size_t>(s_)];
  }

  void* next(Cursor& cursor) const {
    if (cursor.at == cursor.values.size()) {
      throw ScheduleError(
          "reef::run: an instruction of segment ", s_,
          " has too few operands.\n  fix: a pass replaces operands in their places.");
    }
    return site_.memory.at(cursor.values[cursor.at++].storage);
  }

  void bind(std::vector<void*>& table, const std::vector<int>& ids, Cursor& cursor) const {
    for (const int id : ids) table[static_cast<std::size_t>(id)] = next(cursor);
  }

  /// Where a parameter lies in the memory of its bucket.
  template <class U>
  void* in_bucket(void* bucket, std::size_t b, std::size_t parameter) const {
    const StepPlan& plan = site_.plan();
    return static_cast<U*>(bucket) + (plan.layout.parameters[parameter] - plan.buckets[b].begin);
  }

  void weights(Cursor& reads) {
    const StepPlan& plan = site_.plan();
    for (const std::size_t b : site_.builder.buckets_of(segment())) {
      void* const bucket = next(reads);
      for (const int id : segment().parameters) {
        const auto p = static_cast<std::size_t>(id);
        if (plan.bucket_of_parameter[p] != static_cast<int>(b)) continue;
        bindings_.parameters[p] = in_bucket<T>(bucket, b, p);
      }
    }
  }

  void gradients(Cursor& cursor) {
    const StepPlan& plan = site_.plan();
    const int own = plan.bucket_of_segment[static_cast<std::size_t>(s_)];
    void* const bucket = own >= 0 ? next(cursor) : nullptr;
    for (const int use : segment().uses) {
      const auto p = static_cast<std::size_t>(plan.dag->use_at(use).parameter);
      const bool further =
          site_.builder.accumulators[0].uses[static_cast<std::size_t>(use)] != no_storage;
      bindings_.use(use) =
          further ? next(cursor) : in_bucket<sum_t<T>>(bucket, static_cast<std::size_t>(own), p);
    }
  }

  const Site<Device, T, Gradient>& site_;
  int s_;
  graph::SegmentBindings bindings_;
};

}  // namespace detail

namespace detail {

/// to[i] = from[i], or to[i] + from[i], rounded to what `to` is of.
template <bool adds, class To, class From>
struct FoldKernel {
  To* to;
  const From* from;

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    auto sum = at.load(from);
    if constexpr (adds) sum = at.load(to) + sum;
    at.store(to, sum);
  }
};

template <class To, class From, class DeviceLane>
void fold_into(DeviceLane& lane, To* to, const From* from, std::int64_t n, bool adds) {
  if (adds) {
    transform_vectors<To>(lane, n, FoldKernel<true, To, From>{to, from});
  } else {
    transform_vectors<To>(lane, n, FoldKernel<false, To, From>{to, from});
  }
}

/// Adds the code of AddGradients: what a Backward has written becomes, or is added to, gradients of a
/// narrower type. Padding between parameters belongs to nobody, and stays as it is.
template <device::device Device, real T, real Gradient>
void add_rounding_code(Handlers<Device>& handlers, const Site<Device, T, Gradient>& site) {
  handlers.on_lane("AddGradients",
                   [&site](const Instruction& add) -> typename Handlers<Device>::Code {
                     struct Range {
                       Gradient* to;
                       const sum_t<T>* from;
                       std::int64_t elements;
                     };
                     const StepPlan& plan = site.plan();
                     const auto s = static_cast<std::size_t>(add.index);
                     const bool adds = !add.accumulates.empty();
                     const std::vector<Value>& targets = adds ? add.accumulates : add.writes;
                     std::vector<Range> ranges;
                     std::size_t next = 0;
                     if (const int b = plan.bucket_of_segment[s]; b >= 0) {
                       for (const auto& [begin, end] : plan.parameters_in(b)) {
                         ranges.push_back({site.template at<Gradient>(targets[0]) + begin,
                                           site.at(add.reads[0]) + begin, end - begin});
                       }
                       next = 1;
                     }
                     for (; next < targets.size(); ++next) {
                       ranges.push_back({site.template at<Gradient>(targets[next]),
                                         site.at(add.reads[next]), site.elements(add.reads[next])});
                     }
                     return [ranges = std::move(ranges), adds](typename Device::Lane& lane) {
                       for (const Range& r : ranges) {
                         fold_into(lane, r.to, r.from, r.elements, adds);
                       }
                     };
                   });
}

}  // namespace detail

/// Adds the code of Batch, Forward, Backward, AddGradients, FoldUses, FoldRank, Download and Upload.
template <device::device Device, real T, real Gradient>
void add_step_code(Handlers<Device>& handlers, const Site<Device, T, Gradient>& site) {
  using DeviceLane = typename Device::Lane;
  using Code = typename Handlers<Device>::Code;
  using Communication = typename Handlers<Device>::Communication;
  using Sum = sum_t<T>;
  const bool trains = site.builder.trains();

  handlers.on_wire("Batch", [&site](const Instruction& batch) -> Communication {
    const graph::Dag& dag = *site.plan().dag;
    std::vector<AnyView> inputs;
    for (std::size_t i = 0; i < dag.inputs.size(); ++i) {
      const graph::TensorSpec& spec = dag.tensor_at(dag.inputs[i]).spec;
      inputs.emplace_back(site.memory.at(batch.writes[i].storage), spec.shape, spec.element);
    }
    Sum* const weight = site.at(batch.writes.back());
    return site.call("batch", [&site, inputs, weight, j = batch.micro_batch] {
      site.take(j);
      const double given = site.source(site.first_sample(j), inputs);
      if (!(given >= 0 && std::isfinite(given))) {
        throw OptionError("reef::run: the source of rank ", site.rank(), " gives micro-batch ", j,
                          " the weight ", given,
                          ".\n  fix: 0 for what does not count, else a finite number above 0.");
      }
      *weight = static_cast<Sum>(given);
    });
  });

  handlers.on_lane("Forward", [&site, trains](const Instruction& forward) -> Code {
    const auto& segment = site.plan().segments[static_cast<std::size_t>(forward.index)];
    return [&site, &segment, trains, j = forward.micro_batch,
            bindings = detail::Operands<Device, T, Gradient>::of_forward(site, forward)](
               DeviceLane& lane) {
      site.graph.forward(segment, bindings, lane, {site.state.seed, site.first_sample(j), 0, 0},
                         trains);
    };
  });

  handlers.on_lane("Backward", [&site](const Instruction& backward) -> Code {
    using Operands = detail::Operands<Device, T, Gradient>;
    const auto& segment = site.plan().segments[static_cast<std::size_t>(backward.index)];
    return [&site, &segment, j = backward.micro_batch,
            accumulate = !overwrites_gradients(site.builder, backward),
            bindings = Operands::of_backward(site, backward)](DeviceLane& lane) {
      site.graph.backward(segment, bindings, lane, {site.state.seed, site.first_sample(j), 0, 0},
                          accumulate);
    };
  });

  if constexpr (!std::is_same_v<Gradient, Sum>) detail::add_rounding_code(handlers, site);

  handlers.on_lane("FoldUses", [&site](const Instruction& fold) -> Code {
    return site.adds_uses(fold.index, fold.accumulates[0], fold.reads);
  });

  handlers.on_lane("FoldRank", [&site](const Instruction& fold) -> Code {
    const bool accumulate = !fold.accumulates.empty();
    const Value target = accumulate ? fold.accumulates[0] : fold.writes[0];
    return [to = site.at(target), from = site.template at<Gradient>(fold.reads[0]),
            n = site.elements(target),
            accumulate](DeviceLane& lane) { detail::fold_into(lane, to, from, n, accumulate); };
  });

  handlers.on_lane("Download", [&site](const Instruction& download) {
    return site.copies(download, device::Copy::to_host);
  });
  handlers.on_lane("Upload", [&site](const Instruction& upload) {
    return site.copies(upload, device::Copy::to_device);
  });
}

}  // namespace reef::inline v0::run
