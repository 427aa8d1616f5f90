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

/// What a segment takes for one micro-batch: measured, or in proportion to its operations.
struct SegmentTimes {
  Seconds forward = 0;
  Seconds backward = 0;
  Seconds weight_backward = 0;  ///< of backward: its weight half, where it has halves
};

/// In which order the stages of a replica run its micro-batches, and when, in the asynchronous model: messages are
/// posted in the order in which that produces them, so no stage ever waits for one that waits for it.
struct Timetable {
  plan::PipelineOrder order{};                ///< its ranks are stages, its micro-batches units
  std::vector<std::vector<Seconds>> begins{}; ///< by stage and task of the order
  std::vector<std::vector<Seconds>> ends{};   ///< the same: when messages are produced
  std::vector<int> edge_slots{};              ///< by StepPlan::remote_edges: how many messages are under way at most
  int micro_batches = 0;
  int unit = 1;                               ///< micro-batches that go through a chunk together

  /// The micro-batches of one of the order's units: [first, last). Of the last unit there may be fewer.
  [[nodiscard]] std::pair<int, int> micro_batches_of(int which) const {
    return {which * unit, (std::min)((which + 1) * unit, micro_batches)};
  }

  /// Some backward runs in halves.
  [[nodiscard]] bool splits() const {
    for (const auto& tasks : order.tasks) {
      for (const plan::PipelineTask& task : tasks) {
        if (task.kind == plan::PipelineTaskKind::input_backward) return true;
      }
    }
    return false;
  }
};

/// Those of a plan by replica, or by rank that a lone process stands for. Replicas with the same counts share one.
struct PipelineTimetables {
  using ByReplica = std::vector<std::shared_ptr<const Timetable>>;
  ByReplica training{};
  ByReplica evaluation{};  ///< forwards alone
  int unit = 1;            ///< the most micro-batches of a unit, of all replicas
  bool held = false;       ///< a transfer has its lane until its message has arrived
  bool barrier = false;    ///< no stage of a replica goes back before all have run all forwards
};

}  // namespace run
}  // namespace v0
}  // namespace reef
