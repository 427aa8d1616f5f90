#pragma once

#include <vector>

#include <reef/run/timetable.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The part of a StepPlan that the pipeline fills in. Other policies read it by its functions.
///
/// \code
/// #include <cstdio>
/// // given: const run::StepPlan& plan
/// if (plan.has_order()) std::printf("units of %d micro-batches\n", plan.unit());
/// \endcode
struct PlanOfPipeline {
  PipelineTimetables timetables{};            ///< the timetables of a pipeline with an order of its own
  std::vector<SegmentTimes> segment_times{};  ///< by segment: the times from which orders are computed

  /// Returns true if the pipeline has an order of its own, which other passes leave as it is.
  [[nodiscard]] bool has_order() const { return !timetables.training.empty(); }
  /// Returns the most micro-batches that pass a segment together in that order.
  [[nodiscard]] int unit() const { return timetables.unit; }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
