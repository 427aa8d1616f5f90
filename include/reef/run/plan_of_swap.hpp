#pragma once

#include <reef/run/choice.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The part of a StepPlan that belongs to the swap policy. Other axes do not read it: decision 050.
///
/// \code
/// run::StepPlan plan;
/// plan.swapping.weight_slots = 3;
/// \endcode
struct PlanOfSwap {
  SwapSchedule swapping{};  ///< swap schedule, where the policy swaps
  /// True adds `Drop` instructions, which mark device memory that nobody reads any more, so that a checking device
  /// poisons it.
  bool poisons_dead_memory = false;
};

}  // namespace run
}  // namespace v0
}  // namespace reef
