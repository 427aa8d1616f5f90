#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/transfer_order.hpp>
#include <reef/schedule/world.hpp>

/// \file
/// A pipeline in virtual time: the time of an order, its activations, and its messages from rank to rank.
///
/// \code
/// plan::PipelineModel model{plan::zb_h1_order(4, 12), {}};
/// model.times = plan::PipelineTimes::even(model.order, 1e-3, 1e-3, 1e-3);
/// const plan::PipelineEstimate estimate = plan::estimate(model);
/// const Seconds makespan = estimate.makespan;           // 0.039 s, since links take no time
/// const int activations = estimate.peak_activations[0];  // 4
/// \endcode

namespace reef {
inline namespace v0 {
namespace plan {

/// The times of tasks, by chunk, and of messages, by pair of ranks. B takes the time of I and W together.
struct PipelineTimes {
  std::vector<Seconds> forward{};
  std::vector<Seconds> input_backward{};
  std::vector<Seconds> weight_backward{};
  schedule::World world{};  ///< a machine for each rank of the pipeline; only the links count

  [[nodiscard]] Seconds of(const PipelineTask& task) const;

  /// Returns times that are equal for all chunks and for all links.
  static PipelineTimes even(const PipelineOrder& order, Seconds f, Seconds b, Seconds w,
                            schedule::Link link = {});
};

/// A tensor from chunk to chunk, for every micro-batch. Between ranks it is a message; within one rank it takes no
/// time.
struct PipelineEdge {
  int from = 0;
  int to = 0;
  Bytes bytes = 0;

  friend constexpr bool operator==(const PipelineEdge&, const PipelineEdge&) = default;
};

/// Returns the edges of a chain, in which each chunk hands one tensor to the next.
std::vector<PipelineEdge> chain_edges(int chunks, Bytes bytes);

/// An order with its times and its tensors.
///
/// | forward  | a tensor that F of `from` makes and F of `to` needs, from < to; empty: a chain of edges of no bytes |
/// | backward | a tensor that B or I of `from` makes and B or I of `to` needs, from > to: a gradient, or a sum of   |
/// |          | gradients that goes from reader to reader and then to the producer; empty: `forward` backwards      |
struct PipelineModel {
  PipelineOrder order{};
  PipelineTimes times{};
  std::vector<PipelineEdge> forward{};
  std::vector<PipelineEdge> backward{};

  [[nodiscard]] std::vector<PipelineEdge> forward_edges() const;
  [[nodiscard]] std::vector<PipelineEdge> backward_edges() const;

  /// Throws OptionError, naming the invalid figure, unless the order is valid, every chunk has its times, every rank
  /// its links, and edges lead forward, or backward, between chunks.
  void validate() const;
};

/// The slot in which a message arrives, by receiver, index and micro-batch.
using PipelineSlots = std::map<std::tuple<int, int, int>, int>;

/// Returns the programs of all ranks: behind each task stand the sends of the tensors that it makes, ahead of each the
/// receives of those that it needs. schedule::order_transfers then posts the transfers in the order of production.
///
/// | tasks    | kind "F", "B", "I" or "W" on lane compute, index chunk, micro_batch j; cost as in times               |
/// | messages | "SendActivation", "ReceiveGradient", ...: index 2 e of forward edge e, 2 e + 1 of backward edge e     |
/// | places   | a message has a storage of its own, or with `message_slots` its edge's slot; so has what F and I keep |
/// | order    | may be any in which each rank could run alone: validate() is not called                               |
/// | errors   | OptionError for chunks, ranks and edges that do not exist                                             |
std::vector<schedule::Program> programs_of(
    const PipelineModel& model, schedule::Completion completion = schedule::Completion::posted,
    const PipelineSlots& message_slots = {});

/// Returns the slot of each message of the programs of programs_of, as schedule::transfer_slots assigns them.
PipelineSlots pipeline_slots(const std::vector<schedule::Program>& programs,
                             const std::vector<schedule::FreeTransfer>& transfers,
                             const schedule::TransferSlots& message_slots);

/// The times and activations of an order in the asynchronous model: a message leaves when it has been made and its link
/// is free, and each has a slot. A run whose messages are posted in the order of production has these times.
struct PipelineEstimate {
  Seconds makespan = 0;
  double bubble = 0;  ///< 1 - busy / (ranks * makespan)
  /// The end of each task, by rank and task. A task's tensors are produced then; the global order of messages is by
  /// that time, then rank, then task.
  std::vector<std::vector<Seconds>> task_ends{};
  std::vector<Seconds> rank_end{};
  std::vector<Seconds> idle{};       ///< makespan - busy
  std::vector<Seconds> span_idle{};  ///< the idle time between a rank's first start and its last end
  /// The most activations at a time, by rank, in chunks times micro-batches: from F's start until B or W has ended,
  /// until B or I has ended; and those with I, but not W, behind them.
  std::vector<int> peak_activations{};
  std::vector<int> peak_until_input_half{};
  std::vector<int> peak_pending_weight{};
  std::map<std::pair<int, int>, std::int64_t> messages{};  ///< the number of messages, by sender and receiver
};

/// Estimates an order in the asynchronous model.
///
/// | errors | OptionError of PipelineModel::validate(); ScheduleError where ranks wait for each other in a cycle, |
/// |        | naming the waits                                                                                    |
/// | cost   | O(tasks + messages); where uplinks or downlinks are shared, that of schedule::simulate              |
PipelineEstimate estimate(const PipelineModel& model);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_model.ipp>
#endif
