#pragma once

#include <utility>

#include <reef/core/inline.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/staging.hpp>
#include <reef/schedule/detail/structure_checker.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE schedule::Program staged(const StepPlan& plan, schedule::Program written) {
  return plan.discrete ? stage_transfers(std::move(written)) : std::move(written);
}

namespace detail {

/// Before anything is looked up by what the passes have written.
inline StepBuilder checked(StepBuilder written) {
  schedule::detail::StructureChecker(written.program, written.plan.ranks()).run();
  return written;
}

}  // namespace detail

REEF_INLINE PlacedProgram::PlacedProgram(StepBuilder written)
    : builder(detail::checked(std::move(written))),
      program(staged(builder.plan, builder.program)),
      placement(schedule::place(program)) {}

REEF_INLINE PlacedProgram::PlacedProgram(PlacedProgram&&) = default;
REEF_INLINE PlacedProgram::~PlacedProgram() = default;

}  // namespace run
}  // namespace v0
}  // namespace reef
