#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/plan/detail/chain_sums.hpp>
#include <reef/plan/detail/swap_writer.hpp>
#include <reef/plan/kinds.hpp>
#include <reef/plan/swap_program.hpp>
#include <reef/schedule/simulate.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

namespace detail {

/// When the last backward of each round ended.
inline std::vector<Ticks> ends_of(const schedule::Program& program, const schedule::Simulation& run,
                                  int rounds) {
  std::vector<Ticks> ends(static_cast<std::size_t>(rounds), 0);
  for (const schedule::SimulatedSpan& span : run.spans) {
    if (program.round[span.instruction].kind != kinds::backward) continue;
    Ticks& end = ends[static_cast<std::size_t>(span.round)];
    end = (std::max)(end, static_cast<Ticks>(span.end));
  }
  return ends;
}

}  // namespace detail

REEF_INLINE schedule::Program swap_program(const OperatorChain& chain, std::span<const int> bounds,
                                           const AtomSchedule& schedule, bool cold) {
  detail::check_swap(chain, bounds, schedule);
  detail::SwapWriter writer(chain, bounds, schedule);
  return detail::streams(schedule.lanes) ? writer.streaming() : writer.atom(cold);
}

REEF_INLINE SwapTimes swap_times(const OperatorChain& chain, std::span<const int> bounds,
                                 const AtomSchedule& schedule) {
  const auto world = schedule::World::uniform(1, {}, {});
  const auto ends = [&](const schedule::Program& program, int rounds) {
    const schedule::Simulation run = schedule::simulate(std::span(&program, 1), world, rounds);
    return std::pair(detail::ends_of(program, run, rounds), static_cast<Ticks>(run.total));
  };
  const schedule::Program cold = swap_program(chain, bounds, schedule, true);
  const detail::ChainSums sums(chain, schedule.accumulation);
  SwapTimes result;
  result.compute = sums.forward(0, sums.size()) + sums.backward(0, sums.size());
  const auto [first, all] = ends(cold, 1);
  if (detail::streams(schedule.lanes)) {
    const Ticks one = schedule.lanes == SwapLanes::streaming_sync ? all : first[0];
    result.iteration = result.first = schedule.accumulation * one;
    return result;
  }
  result.first = first[0];
  const schedule::Program warm = swap_program(chain, bounds, schedule);
  const auto size = static_cast<int>(std::min<std::size_t>(warm.round.size(), 1 << 20));
  const int rounds = std::clamp((1 << 18) / size, 8, detail::max_rounds);
  const std::vector<Ticks> end = ends(warm, rounds).first;
  const auto at = [&](int round) { return end[static_cast<std::size_t>(round)]; };
  const Ticks last = at(rounds - 1) - at(rounds - 2);
  const int half = rounds / 2;
  const bool settled = last == at(rounds - 2) - at(rounds - 3);
  result.iteration = settled ? last : (at(rounds - 1) - at(rounds - 1 - half)) / half;
  return result;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
