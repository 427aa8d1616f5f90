#pragma once

#include <utility>

#include <reef/run/step_builder.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Returns a program in the form in which it runs: if messages cannot be sent from the device's memory (plan.discrete),
/// with copies to and from host memory.
schedule::Program staged(const StepPlan& plan, schedule::Program written);

/// A rank's program in its three forms: as the policies wrote it (in `builder`), with messages staged in host memory,
/// and with a memory offset for each storage.
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

  /// Stages the program's messages in host memory where needed, and gives each memory block (storage) its offset.
  /// Throws ScheduleError if an instruction names a storage that does not exist.
  explicit PlacedProgram(StepBuilder written);
  PlacedProgram(PlacedProgram&&);
  ~PlacedProgram();
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/placed_program.ipp>
#endif
