#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/pipeline_order.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The times of a segment (consecutive operators) for one micro-batch: measured, or in proportion to its operations.
struct SegmentTimes {
  Seconds forward = 0;
  Seconds backward = 0;
  /// The part of `backward` that gradients of weights take, if the backward is split in halves.
  Seconds weight_backward = 0;
};

/// The order in which the stages of one pipeline run its micro-batches, with times of a model in which sends never
/// block: messages are posted in the order in which that model produces them, so stages never wait for each other in a
/// cycle.
struct Timetable {
  /// The order of tasks: its ranks are pipeline stages; each of its micro-batches stands for `unit` micro-batches.
  plan::PipelineOrder order{};
  std::vector<std::vector<Seconds>> begins{};  ///< the start of each task in seconds, by stage and task of the order
  std::vector<std::vector<Seconds>> ends{};    ///< the end of each task in seconds, when its messages are produced
  /// The most messages in flight at once on each edge between stages (StepPlan::remote_edges).
  std::vector<int> edge_slots{};
  int micro_batches = 0;
  int unit = 1;                               ///< the number of micro-batches that pass a part of the model together

  /// Returns the micro-batches [first, last) that the order of tasks counts as one. The last such unit may have fewer.
  [[nodiscard]] std::pair<int, int> micro_batches_of(int which) const {
    return {which * unit, (std::min)((which + 1) * unit, micro_batches)};
  }

  /// Returns true if some backward is split in an input and a weight half.
  [[nodiscard]] bool splits() const {
    for (const auto& tasks : order.tasks) {
      for (const plan::PipelineTask& task : tasks) {
        if (task.kind == plan::PipelineTaskKind::input_backward) return true;
      }
    }
    return false;
  }
};

/// The orders of tasks of a plan's pipelines, for each copy of the model, or for each rank that a lone process
/// emulates. Those with the same number of micro-batches share one.
struct PipelineTimetables {
  using ByReplica = std::vector<std::shared_ptr<const Timetable>>;
  ByReplica training{};
  ByReplica evaluation{};  ///< the orders for evaluations, which have forwards alone
  int unit = 1;            ///< the most micro-batches that pass a part of the model together, over all pipelines
  bool held = false;       ///< true if a transfer occupies its queue until its message has arrived
  bool barrier = false;    ///< true if no stage runs a backward before all stages of its pipeline have run all forwards
};

}  // namespace run
}  // namespace v0
}  // namespace reef
