#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/codec/message.hpp>
#include <reef/comm/call_task.hpp>
#include <reef/comm/collectives.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/graph/graph.hpp>
#include <reef/run/edge_ratios.hpp>
#include <reef/run/fold.hpp>
#include <reef/run/handlers.hpp>
#include <reef/run/links.hpp>
#include <reef/run/memory.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/transfers.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Fills the graph's inputs for the samples first_sample, first_sample + 1, ... of one micro-batch, in
/// host memory, and returns the micro-batch's loss weight: 1, or its count of tokens.
///
/// Called on a thread of its own, one call after another; it may take its time. Equal calls give equal
/// bytes. What it throws ends the step of all ranks, with a SourceError here.
using Source = std::function<double(std::uint64_t first_sample, std::span<const AnyView> inputs)>;

/// What a source has thrown, with the rank, the micro-batch and its samples. The inputs are unspecified.
class SourceError : public CausedError {
public:
  using CausedError::CausedError;
};

/// Says which of the job's micro-batches a rank's next one is, where its count is its own affair: called
/// as a Source is. If it is empty, the plan says so.
using NextMicroBatch = std::function<std::uint64_t()>;

/// What changes from step to step, set between rounds.
struct StepState {
  std::uint64_t seed = 0;
  std::uint64_t micro_batch = 0;  ///< of all ranks, that the steps so far have used up
  std::int64_t committed = 0;     ///< optimizer steps that changed the weights
  std::int64_t updates = 0;       ///< of a weight, by these: as many, or more where a pipeline updates within a step
  double learning_rate = 0;
  double next_learning_rate = 0;  ///< of the step after this one
  std::int64_t began = 0;         ///< steps after which ranks last began at the same weights
  EdgeRatios ratios{};            ///< where a compressor plans them again; else none
  /// What a compressor has been told for this step: by traffic, then edge, bucket or piece; 0, or none, where its codec decides.
  /// Asked for anew by every step, so no part of a checkpoint.
  std::array<std::vector<double>, schedule::traffic_count> chosen{};
};

/// What the code of one rank's program works on: the program, its memory, its model and its
/// batches. Everything outlives the executor. A policy's code also asks it for messages to other
/// ranks.
///
/// \code
/// template <class Handlers, class RankContext>
/// void add_code(Handlers& handlers, const RankContext& context) {
///   handlers.on_wire("Share", [&context](const schedule::Instruction& i) {
///     return context.template all_gather<typename RankContext::sum_type>(i.text(), i);
///   });
/// }
/// \endcode
template <device::device Device, real T, real Gradient = sum_t<T>>
struct RankContext {
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
  std::uint32_t round = 0;              ///< how many rounds of the program have begun
  std::deque<CodingLoss>* losses = nullptr;  ///< to which code adds one where it measures what is lost; none: nobody asks

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

  /// The owner of each shard of what the instruction reads folds the chunks of its group's members:
  /// comm::ReduceScatterTask. It reads the whole, and writes this rank's shard; run::
  /// add_reduce_scatter_messages has said who takes part.
  [[nodiscard]] Communication reduce_scatter(std::string name, const Instruction& instruction) const {
    const schedule::Collective& all = collective_of(instruction);
    const CollectiveView view(instruction);
    return {std::make_shared<comm::ReduceScatterTask<Gradient, sum_type>>(
        std::move(name), span<Gradient>(view.given.front()), span(view.taken.front()), all.offsets,
        group_of(all))};
  }

  /// Every member of the instruction's group gets the shards of all: comm::AllGatherTask. It reads this
  /// rank's shard, and writes the whole; run::add_all_gather_messages has said who takes part.
  template <class U>
  [[nodiscard]] Communication all_gather(std::string name, const Instruction& instruction) const {
    const CollectiveView view(instruction);
    return all_gather<U>(std::move(name), instruction, span<U>(view.given.front()),
                         span<U>(view.taken.front()));
  }
  template <class U>
  [[nodiscard]] Communication all_gather(std::string name, const Instruction& instruction,
                                         std::span<const U> shard, std::span<U> whole) const {
    const schedule::Collective& all = collective_of(instruction, false);
    return {std::make_shared<comm::AllGatherTask<U>>(std::move(name), shard, whole, all.offsets,
                                                     group_of(all))};
  }

  /// To the one peer that the instruction sends to, what it reads; from the one that it receives from, to what it
  /// writes: comm::SendTask and comm::ReceiveTask. Its messages say where in the job they belong (origin_of).
  [[nodiscard]] Communication send(std::string name, const Instruction& instruction) const {
    const SendView view(instruction);
    return transfer<comm::SendTask>(std::move(name), instruction, view.message().peer,
                                    view.payload.front());
  }
  [[nodiscard]] Communication receive(std::string name, const Instruction& instruction) const {
    const ReceiveView view(instruction);
    return transfer<comm::ReceiveTask>(std::move(name), instruction, view.message().peer,
                                       view.payload.front());
  }

  /// Where the instruction's messages belong in the round that runs: alike on both ends.
  [[nodiscard]] comm::Origin origin_of(const Instruction& instruction) const {
    comm::Origin origin;
    origin.plan = Hash().add(plan().agreed).add(builder.purpose).add(builder.variant).value();
    origin.step = static_cast<std::uint32_t>(state.committed);
    origin.round = round;
    origin.edge = static_cast<std::uint32_t>(instruction.index) & 0xffffffU;
    origin.direction = direction_of(instruction.traffic);
    origin.micro_batch = static_cast<std::uint32_t>(instruction.micro_batch);
    return origin;
  }

  /// A function of this rank alone, between its messages: comm::CallTask.
  [[nodiscard]] static Communication call(std::string name, std::function<void()> function) {
    return {std::make_shared<comm::CallTask>(std::move(name), std::move(function))};
  }

  /// Code that copies what an instruction reads to what it writes, one by one.
  [[nodiscard]] typename Handlers<Device>::Code copies(const Instruction& instruction) const {
    std::vector<StorageCopy> all;
    const CopyView view(instruction);
    for (std::size_t k = 0; k < view.to.size(); ++k) {
      all.push_back(memory.copy({view.to[k].storage}, {view.from[k].storage},
                                storage(view.to[k]).bytes));
    }
    return [all = std::move(all)](typename Device::Lane& lane) {
      for (const StorageCopy& copy : all) copy(lane);
    };
  }

  /// Code that adds the gradients of tied uses of parameters, as StepBuilder::tied_uses lists
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
    for (const int use : builder.tied_uses(bucket)) {
      const auto p = static_cast<std::size_t>(plan().dag->use_at(use).parameter);
      additions.push_back(
          {at<Gradient>(gradient) + (plan().layout.parameters[p] - plan().buckets[bucket].begin),
           at<Gradient>(uses[next++]), plan().dag->parameters[p].spec.shape.size()});
    }
    return [additions = std::move(additions)](typename Device::Lane& lane) {
      for (const Addition& a : additions) {
        detail::fold_into(lane, a.to, a.from, a.elements, true);
      }
    };
  }

  /// Numbers this rank's micro-batches among those of the job, before a round: as the plan says, also
  /// on a rank that fills none itself.
  void number_micro_batches() const {
    for (std::size_t j = 0; j < numbers.size(); ++j) {
      numbers[j] =
          state.micro_batch + static_cast<std::uint64_t>(builder.micro_batches[j].number);
    }
  }

  /// Where ranks take micro-batches in an order of their own, j gets its number with its Batch: in each
  /// iteration of a loop another.
  void claim(int j) const {
    if (own_order) numbers[static_cast<std::size_t>(j)] = own_order();
  }

  /// The global index of the first sample of micro-batch j of this rank.
  [[nodiscard]] std::uint64_t first_sample(int j) const {
    const graph::Tensor& input = plan().dag->tensor_at(plan().dag->inputs.at(0));
    const auto samples =
        static_cast<std::uint64_t>(input.spec.shape.rank() == 0 ? 1 : input.spec.shape[0]);
    return numbers[static_cast<std::size_t>(j)] * samples;
  }

private:
  template <class Task>
  [[nodiscard]] Communication transfer(std::string name, const Instruction& instruction, int peer,
                                       Value value) const {
    const std::span<std::byte> payload = span<std::byte>(value);
    auto task = std::make_shared<Task>(std::move(name), peer, payload);
    const WireForm& form = plan().wire_of(instruction.traffic);
    const bool varies =
        schedule::is_between_stages(instruction.traffic) && form.encodes(instruction.index) && !form.exact;
    if (varies) task->set_length(comm::Length::at_most);
    return {task, [this, to = task.get(), payload, varies, origin = origin_of(instruction)]() mutable {
              if (varies && to->kind() == comm::Kind::send) to->set_used(codec::message_in(payload).size());
              origin.step = static_cast<std::uint32_t>(state.committed);
              origin.round = round;
              to->set_origin(origin);
            }};
  }

  static comm::Direction direction_of(schedule::Traffic traffic) {
    switch (traffic) {
      case schedule::Traffic::activation: return comm::Direction::activation;
      case schedule::Traffic::activation_gradient: return comm::Direction::activation_gradient;
      case schedule::Traffic::gradient: return comm::Direction::gradient;
      case schedule::Traffic::parameter: return comm::Direction::parameter;
      default: return comm::Direction::none;
    }
  }

  /// None stands for all ranks.
  [[nodiscard]] std::optional<Group> group_of(const schedule::Collective& all) const {
    if (all.group.size() == plan().ranks()) return std::nullopt;
    return all.group;
  }

  /// `has_operands`: it reads its part, and writes what comes of all; else the caller has them.
  static const schedule::Collective& collective_of(const Instruction& instruction,
                                                   bool has_operands = true) {
    const bool lacks = instruction.reads.empty() || instruction.writes.empty();
    if (instruction.collective && !(has_operands && lacks)) return *instruction.collective;
    throw ScheduleError(
        "reef::run: ", instruction.text(), " is to be a collective, but ",
        instruction.collective ? "reads or writes nothing" : "does not say whose, nor its messages",
        ".\n  fix: what it reads and writes, and run::add_reduce_scatter_messages or "
        "run::add_all_gather_messages, when it is written.");
  }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
