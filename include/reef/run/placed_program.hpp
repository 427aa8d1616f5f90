#pragma once

#include <utility>

#include <reef/run/staging.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A program of the plan as it runs: its messages are staged where they are made of host memory.
inline schedule::Program staged(const StepPlan& plan, schedule::Program written) {
  return plan.discrete ? stage_transfers(std::move(written)) : std::move(written);
}

/// A rank's program in all the forms that it takes: as the passes wrote it, staged, and placed.
///
/// \code
/// // given: run::StepBuilder& builder
/// const run::PlacedProgram placed(std::move(builder));
/// const Bytes peak = placed.placement.device_bytes;
/// \endcode
struct PlacedProgram {
  StepBuilder builder;
  schedule::Program program;
  schedule::Placement placement;

  /// Throws ScheduleError where an instruction names what is not there.
  explicit PlacedProgram(StepBuilder written)
      : builder(checked(std::move(written))),
        program(staged(builder.plan, builder.program)),
        placement(schedule::place(program)) {}

private:
  /// Before anything is looked up by what the passes have written.
  static StepBuilder checked(StepBuilder written) {
    schedule::detail::StructureChecker(written.program, written.plan.ranks()).run();
    return written;
  }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
