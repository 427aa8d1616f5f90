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
/// A model of a pipeline in virtual time: the time that an order of tasks takes, its activations in memory, and its
/// messages between ranks.
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

/// The times of the tasks F (forward), I and W (halves of the backward), by chunk, and of messages, by pair of ranks.
/// B, the whole backward, takes as long as I and W together.
struct PipelineTimes {
  std::vector<Seconds> forward{};
  std::vector<Seconds> input_backward{};
  std::vector<Seconds> weight_backward{};
  schedule::World world{};  ///< a machine for each rank, of which only uplink and downlink count, and the links

  [[nodiscard]] Seconds of(const PipelineTask& task) const;

  /// Returns times that are equal for all chunks and for all links; f, b, w: those of forward, input half and weight
  /// half of the backward.
  static PipelineTimes even(const PipelineOrder& order, Seconds f, Seconds b, Seconds w,
                            schedule::Link link = {});
};

/// A tensor that a chunk (part of the model) hands to another, for every micro-batch. Between ranks it is a message;
/// within one rank it takes no time.
struct PipelineEdge {
  int from = 0;
  int to = 0;
  Bytes bytes = 0;

  friend constexpr bool operator==(const PipelineEdge&, const PipelineEdge&) = default;
};

/// Returns the edges of a pipeline in which each chunk hands one tensor of `bytes` bytes to the next.
std::vector<PipelineEdge> chain_edges(int chunks, Bytes bytes);

/// An order of a pipeline's tasks, with their times and the tensors that chunks of the model hand to each other.
///
/// | forward  | tensors that F of `from` produces and F of `to` reads, from < to; empty: chain_edges of 0 bytes     |
/// | backward | tensors that B or I of `from` produces and B or I of `to` reads, from > to: a gradient, or a sum of |
/// |          | gradients that passes from reader to reader and then to the producer; empty: `forward` reversed     |
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

/// The number of the receive buffer of each message of a pipeline, by receiving rank, index of the edge and
/// micro-batch.
using PipelineSlots = std::map<std::tuple<int, int, int>, int>;

/// Returns the programs of all ranks: each task is preceded by the receives of the tensors that it reads, and followed
/// by the sends of those that it produces. schedule::order_transfers() can then sort transfers by time of production.
///
/// | tasks    | kind "F", "B", "I" or "W" on lane compute, index: the chunk, micro_batch j; cost as in times        |
/// | messages | "SendActivation", "ReceiveGradient", ...: index 2 e for forward edge e, 2 e + 1 for backward edge e |
/// | places   | each message has its own storage, or with `message_slots` a slot of its edge; so have the           |
/// |          | tensors that F and I keep. Any order in which each rank could run alone is accepted                 |
/// | errors   | OptionError for chunks, ranks and edges that do not exist                                           |
std::vector<schedule::Program> programs_of(
    const PipelineModel& model, schedule::Completion completion = schedule::Completion::posted,
    const PipelineSlots& message_slots = {});

/// Returns the receive buffer of each message of the programs of programs_of(), as schedule::transfer_slots() assigned
/// it.
PipelineSlots pipeline_slots(const std::vector<schedule::Program>& programs,
                             const std::vector<schedule::FreeTransfer>& transfers,
                             const schedule::TransferSlots& message_slots);

/// The times and activations of an order of pipeline tasks if sends never block (asynchronous model): a message is sent
/// as soon as its tensor has been produced and its link is free, and has a buffer to arrive in. A run that posts
/// messages in that order has these times.
struct PipelineEstimate {
  Seconds makespan = 0;
  double bubble = 0;  ///< the idle fraction of all ranks: 1 - sum of the times of all tasks / (ranks * makespan)
  /// The end of each task in seconds, by rank and task, at which its tensors have been produced. The global order of
  /// messages is by that time, then by rank, then by task.
  std::vector<std::vector<Seconds>> task_ends{};
  std::vector<Seconds> rank_end{};   ///< the end of each rank's last task, in seconds
  std::vector<Seconds> idle{};       ///< the idle seconds of each rank: makespan less the times of the rank's tasks
  std::vector<Seconds> span_idle{};  ///< the idle seconds between each rank's first start and its last end
  /// The most activations that each rank holds at a time, one for each chunk and micro-batch: counted from the start of
  /// F (forward) to the end of B (backward) or W (its weight half); `until_input_half`: to the end of B or I (input
  /// half); `pending_weight`: from the end of I to that of W.
  std::vector<int> peak_activations{};
  std::vector<int> peak_until_input_half{};
  std::vector<int> peak_pending_weight{};
  std::map<std::pair<int, int>, std::int64_t> messages{};  ///< the number of messages, by sending and receiving rank
};

/// Estimates the times and activations of an order of pipeline tasks if sends never block (see PipelineEstimate).
///
/// | errors | OptionError of PipelineModel::validate(); ScheduleError if ranks wait for each other in a cycle, |
/// |        | naming the waits                                                                                 |
/// | cost   | O(tasks + messages); that of schedule::simulate() if a machine has an uplink or downlink rate    |
PipelineEstimate estimate(const PipelineModel& model);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_model.ipp>
#endif
