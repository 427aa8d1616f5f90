#pragma once

#include <utility>

#include <reef/run/staging.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::run {

/// The program as it runs: staged where messages are made of host memory.
inline schedule::Program staged(StepBuilder written) {
  return written.plan.discrete ? stage_transfers(std::move(written.program))
                               : std::move(written.program);
}

/// A rank's program in all the forms that it takes: as the passes wrote it, staged, and placed.
struct PlacedProgram {
  StepBuilder builder;
  schedule::Program program;
  schedule::Placement placement;

  explicit PlacedProgram(StepBuilder written)
      : builder(std::move(written)),
        program(staged(builder)),
        placement(schedule::place(program)) {}
};

}  // namespace reef::inline v0::run
