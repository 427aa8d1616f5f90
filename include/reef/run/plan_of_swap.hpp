#pragma once

#include <reef/run/choice.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The part of a training plan (StepPlan) that the swap policy fills in. Other policies do not read it.
///
/// \code
/// run::StepPlan plan;
/// plan.swapping.weight_slots = 3;
/// \endcode
struct PlanOfSwap {
  SwapSchedule swapping{};  ///< when parts of the model are on the device, if the policy swaps
  /// True: programs get `Drop` instructions, which mark device memory that nobody reads again, so that a checking
  /// device poisons it.
  bool poisons_dead_memory = false;
};

}  // namespace run
}  // namespace v0
}  // namespace reef
