#pragma once

#include <vector>

#include <reef/run/timetable.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The part of a training plan (StepPlan) that the pipeline fills in. Other policies read it by its functions.
///
/// \code
/// #include <cstdio>
/// // given: const run::StepPlan& plan
/// if (plan.has_order()) std::printf("units of %d micro-batches\n", plan.unit());
/// \endcode
struct PlanOfPipeline {
  PipelineTimetables timetables{};  ///< the order of tasks of each stage, for a pipeline that decides it in advance
  std::vector<SegmentTimes> segment_times{};  ///< times of each segment, from which orders are computed

  /// Returns true if the pipeline has an order of tasks of its own, which other policies leave as it is.
  [[nodiscard]] bool has_order() const { return !timetables.training.empty(); }
  /// Returns the most micro-batches that go through a segment together in the pipeline's order.
  [[nodiscard]] int unit() const { return timetables.unit; }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
