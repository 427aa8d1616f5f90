#pragma once

#include <utility>

#include <reef/run/staging.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::run {

/// A rank's program in all the forms that it takes: as the passes wrote it, staged, and placed.
struct PlacedProgram {
  StepBuilder builder;
  schedule::Program program;
  schedule::Placement placement;

  explicit PlacedProgram(StepBuilder written)
      : builder(std::move(written)),
        program(builder.plan.discrete ? stage_transfers(builder.program) : builder.program),
        placement(schedule::place(program)) {}
};

}  // namespace reef::inline v0::run
