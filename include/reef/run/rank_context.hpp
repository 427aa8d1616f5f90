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

#include <reef/comm/collectives.hpp>
#include <reef/comm/message.hpp>
#include <reef/core/error.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/graph/graph.hpp>
#include <reef/run/edge_ratios.hpp>
#include <reef/run/fold.hpp>
#include <reef/run/handlers.hpp>
#include <reef/run/links.hpp>
#include <reef/run/memory.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/transfers.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A function that fills the graph's inputs for the samples first_sample, first_sample + 1, ... of one micro-batch, in
/// host memory, and returns the micro-batch's loss weight: 1, or its count of tokens.
///
/// It is called on a thread of its own, one call after another, and may be slow. Equal calls must give equal bytes. An
/// exception from it ends the step of all ranks, on this rank with a SourceError: the exception, or one caused by it.
using Source = std::function<double(std::uint64_t first_sample, std::span<const AnyView> inputs)>;

/// The error that a source (the user's function that fills micro-batches) failed; it names the rank, the micro-batch
/// and its samples, whose inputs are unspecified.
class SourceError : public CausedError {
public:
  using CausedError::CausedError;
};

/// A function that returns the job-wide number of the micro-batch that a rank runs next, for ranks that decide
/// themselves how many they run; called on the same thread as a Source. If it is empty, the plan numbers micro-batches.
using NextMicroBatch = std::function<std::uint64_t()>;

/// The values that change from step to step, set between runs of the program.
struct StepState {
  std::uint64_t seed = 0;
  std::uint64_t micro_batch = 0;  ///< the number of micro-batches of all ranks that the steps so far have used
  std::int64_t committed = 0;     ///< the number of optimizer steps that changed the weights
  std::int64_t updates = 0;       ///< the number of updates of a weight in these steps: equal to `committed`, or
                                  ///< greater if a pipeline updates within a step
  double learning_rate = 0;
  double next_learning_rate = 0;  ///< the learning rate of the step after this one
  std::int64_t began = 0;         ///< value of `committed` when all ranks last began with the same weights
  EdgeRatios ratios{};            ///< compression ratios that change while training; empty for other compressors
  /// The compression ratios chosen for this step: by sort of messages, then by edge between stages, bucket or fragment;
  /// 0, or no entry, where the codec decides. Every step chooses them anew, so they are not saved in a checkpoint.
  std::array<std::vector<double>, schedule::traffic_count> chosen{};
};

/// The part of a rank's context that depends on no device and no element type: the program, its memory, and the numbers
/// of its samples. The context is what the code of the rank's instructions works on.
///
/// | life | placed, arenas and state outlive it |
class AnyRankContext {
public:
  using Communication = HandlerTable::Communication;

  AnyRankContext(const PlacedProgram& placed, const Arenas& arenas, Source its_source, NextMicroBatch its_order,
                 const StepState& its_state);
  AnyRankContext(const AnyRankContext&) = delete;
  AnyRankContext& operator=(const AnyRankContext&) = delete;
  virtual ~AnyRankContext();

  const PlacedProgram& placed;
  /// The builder of the program before messages are staged in host memory: storages keep their ids.
  const StepBuilder& builder;
  const Memory memory;
  const Source source;
  /// Function that returns the next micro-batch's number; empty: the plan numbers micro-batches.
  const NextMicroBatch own_order;
  const StepState& state;
  std::uint32_t round = 0;                  ///< number of times that the program has begun to run
  mutable std::deque<CodingLoss> losses{};  ///< loss of precision of each codec, added by the code that measures it

  [[nodiscard]] const StepPlan& plan() const { return builder.plan; }
  [[nodiscard]] int rank() const { return builder.rank(); }
  [[nodiscard]] const schedule::Storage& storage(Value value) const {
    return memory.program().storages[value.storage];
  }

  /// Returns code for a send of the value that the instruction reads to its one receiver, or for a receive of the value
  /// that it writes from its one sender (comm::SendTask, comm::ReceiveTask). Messages carry their origin in the job
  /// (origin_of).
  [[nodiscard]] Communication send(std::string name, const Instruction& instruction) const;
  [[nodiscard]] Communication receive(std::string name, const Instruction& instruction) const;

  /// Returns the origin of the instruction's messages in the present run of the program (such as step and micro-batch),
  /// which is equal on both ends.
  [[nodiscard]] comm::Origin origin_of(const Instruction& instruction) const;

  /// Returns code that calls a function on this rank alone, in the order of its messages: comm::CallTask.
  [[nodiscard]] static Communication call(std::string name, std::function<void()> function);

  /// Begins a run of the program: gives this rank's micro-batches their numbers in the job, as planned, also on a rank
  /// that fills no inputs itself.
  void begin_round();

  /// Asks own_order, if there is one, for the job-wide number of micro-batch j. To be called by the instruction that
  /// fills it: in each iteration of a loop it gets another number.
  void claim(int j) const {
    if (own_order) numbers_[static_cast<std::size_t>(j)] = own_order();
  }

  /// Sets the job-wide number of micro-batch j of this rank, for code that chooses numbers itself; given() returns all
  /// those of this run, in the order of the calls.
  void give(int j, std::uint64_t number) const {
    numbers_[static_cast<std::size_t>(j)] = number;
    given_.push_back(number);
  }
  [[nodiscard]] const std::vector<std::uint64_t>& given() const& { return given_; }
  void given() const&& = delete;

  /// Returns the global index of the first sample of micro-batch j of this rank.
  [[nodiscard]] std::uint64_t first_sample(int j) const;

protected:
  /// Returns the copies of the values that an instruction reads to those that it writes, one by one.
  [[nodiscard]] std::vector<StorageCopy> copies_of(const Instruction& instruction) const;

  /// Returns the group of a collective, or nothing if the group is all ranks.
  [[nodiscard]] std::optional<Group> group_of(const schedule::Collective& all) const;

  /// Returns the collective of an instruction. Throws ScheduleError if it has none, or if `has_operands` and the
  /// instruction does not read its part and write the result; without `has_operands`, the caller provides the memory.
  static const schedule::Collective& collective_of(const Instruction& instruction, bool has_operands = true);

private:
  template <class Task>
  [[nodiscard]] Communication transfer(std::string name, const Instruction& instruction, int peer, Value value) const;

  mutable std::vector<std::uint64_t> numbers_;  ///< job-wide index of each micro-batch of this rank
  mutable std::vector<std::uint64_t> given_{};  ///< the micro-batch numbers that code has chosen in this run
};

/// The context in which the code of one rank's instructions runs: the program, its memory, its model and its batches,
/// which all outlive the executor. It also returns the code of messages to other ranks, for policies.
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
class RankContext final : public AnyRankContext {
public:
  using device_type = Device;
  using element_type = T;          ///< the type of weights
  using sum_type = sum_t<T>;       ///< the type of numbers computed from weights, of losses and optimizer state
  using gradient_type = Gradient;  ///< the type in which gradients of weights are stored and sent

  RankContext(const PlacedProgram& its_program, const Arenas& arenas, const graph::Graph<Device, T>& its_graph,
              Source its_source, NextMicroBatch its_order, const StepState& its_state)
      : AnyRankContext(its_program, arenas, std::move(its_source), std::move(its_order), its_state), graph(its_graph) {}

  const graph::Graph<Device, T>& graph;

  /// Returns the number of elements of a value's storage (block of memory), of the sum type unless another is given.
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

  /// Returns code that sums the value that the instruction reads over the members of its group, each shard on its
  /// owner: comm::ReduceScatterTask. The instruction reads the whole, and writes this rank's shard;
  /// run::add_reduce_scatter_messages has set the group.
  [[nodiscard]] Communication reduce_scatter(std::string name, const Instruction& instruction) const {
    const schedule::Collective& all = collective_of(instruction);
    const CollectiveView view(instruction);
    return {std::make_shared<comm::ReduceScatterTask<Gradient, sum_type>>(
        std::move(name), span<Gradient>(view.given.front()), span(view.taken.front()), all.offsets,
        group_of(all))};
  }

  /// Returns code that gathers the shards of all members of the instruction's group on every member:
  /// comm::AllGatherTask. The instruction reads this rank's shard, and writes the whole; run::add_all_gather_messages
  /// has set the group.
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

  /// Returns code that copies the values that an instruction reads to those that it writes, one by one.
  [[nodiscard]] typename Handlers<Device>::Code copies(const Instruction& instruction) const {
    return [all = copies_of(instruction)](typename Device::Lane& lane) {
      for (const StorageCopy& copy : all) copy(lane);
    };
  }

  /// Returns code that adds the gradients of further uses of shared (tied) parameters, as StepBuilder::tied_uses lists
  /// them for bucket b, to the bucket's gradient.
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
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/rank_context.ipp>
#endif
