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

/// The times of a segment for one micro-batch: measured, or in proportion to its operations.
struct SegmentTimes {
  Seconds forward = 0;
  Seconds backward = 0;
  Seconds weight_backward = 0;  ///< the part of `backward` that its weight half takes, if it is split in halves
};

/// The order in which the stages of a replica run its micro-batches, with its times in the asynchronous model: messages
/// are posted in the order in which that model produces them, so stages never wait for each other in a cycle.
struct Timetable {
  plan::PipelineOrder order{};                ///< the order: its ranks are stages, its micro-batches are units
  std::vector<std::vector<Seconds>> begins{}; ///< the start of each task, by stage and task of the order
  std::vector<std::vector<Seconds>> ends{};   ///< the end of each task, when its messages are produced
  std::vector<int> edge_slots{};              ///< by StepPlan::remote_edges: the most messages in flight at once
  int micro_batches = 0;
  int unit = 1;                               ///< the number of micro-batches that pass a chunk together

  /// Returns the micro-batches of one of the order's units: [first, last). The last unit may have fewer.
  [[nodiscard]] std::pair<int, int> micro_batches_of(int which) const {
    return {which * unit, (std::min)((which + 1) * unit, micro_batches)};
  }

  /// Returns true if some backward is split in halves.
  [[nodiscard]] bool splits() const {
    for (const auto& tasks : order.tasks) {
      for (const plan::PipelineTask& task : tasks) {
        if (task.kind == plan::PipelineTaskKind::input_backward) return true;
      }
    }
    return false;
  }
};

/// The timetables of a plan, by replica, or by rank that a lone process stands for. Replicas with the same number of
/// micro-batches share one.
struct PipelineTimetables {
  using ByReplica = std::vector<std::shared_ptr<const Timetable>>;
  ByReplica training{};
  ByReplica evaluation{};  ///< the timetables of evaluations, which have forwards alone
  int unit = 1;            ///< the most micro-batches of a unit, over all replicas
  bool held = false;       ///< true if a transfer occupies its lane until its message has arrived
  bool barrier = false;    ///< true if no stage of a replica runs a backward before all have run all forwards
};

}  // namespace run
}  // namespace v0
}  // namespace reef
