#pragma once

#include <span>

#include <reef/plan/chain.hpp>
#include <reef/plan/swap_schedule.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Returns the program of an iteration, for streaming that of one micro-batch; costs are in ticks instead of seconds.
/// `cold`: the program begins with nothing on the device. Throws OptionError for bounds that do not cut the chain,
/// fewer than 2 slots, slots or a turn with lanes that have none, or times too long for a virtual clock.
schedule::Program swap_program(const Chain& chain, std::span<const int> bounds,
                               const SwapSchedule& schedule, bool cold = false);

/// Returns the times of a schedule: those of swap_program in the simulator. Errors are those of swap_program.
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III; two lanes, where loads are hidden, give the time
/// of partition_chain.
///
/// \code
/// // given: const plan::Chain& chain, const plan::Partition& found
/// const plan::SwapTimes times = plan::swap_times(chain, found.bounds, {.accumulation = 4});
/// \endcode
SwapTimes swap_times(const Chain& chain, std::span<const int> bounds, const SwapSchedule& schedule);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/swap_program.ipp>
#endif
