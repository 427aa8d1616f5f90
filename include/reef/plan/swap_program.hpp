#pragma once

#include <span>

#include <reef/plan/atom_schedule.hpp>
#include <reef/plan/chain.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Returns the program of an iteration in which sub-models are swapped between host and device (with streaming lanes:
/// of one micro-batch); costs are in ticks, not seconds. `cold`: the program begins with nothing on the device. Throws
/// OptionError for invalid bounds (validate_bounds), fewer than 2 slots, slots or a turn with lanes that do not allow
/// them, or times too long for a virtual clock.
schedule::Program swap_program(const OperatorChain& chain, std::span<const int> bounds,
                               const AtomSchedule& schedule, bool cold = false);

/// Returns the times of a swap schedule, by simulating its swap_program(). Throws OptionError as swap_program().
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III. On two lanes with hidden loads, `iteration` is that
/// of partition_chain().
///
/// \code
/// // given: const plan::OperatorChain& chain, const plan::Partition& found
/// const plan::SwapTimes times = plan::swap_times(chain, found.bounds, {.accumulation = 4});
/// \endcode
SwapTimes swap_times(const OperatorChain& chain, std::span<const int> bounds,
                     const AtomSchedule& schedule);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/swap_program.ipp>
#endif
