#pragma once

#include <cstddef>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/simulated_run.hpp>
#include <reef/swarm/core/simulation.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE SimulationResult simulate(const FaultPlan& plan, const SimulatedWorld& world) {
  return detail::Simulation(plan, world).run();
}

REEF_INLINE FaultPlan shrink(FaultPlan plan, const SimulatedWorld& world) {
  const auto breaks = [&](const FaultPlan& smaller) { return !simulate(smaller, world).violation.empty(); };
  bool smaller = true;
  while (smaller) {
    smaller = false;
    for (std::size_t i = 0; i < plan.faults.size(); ++i) {
      FaultPlan without = plan;
      without.faults.erase(without.faults.begin() + static_cast<std::ptrdiff_t>(i));
      if (!breaks(without)) continue;
      plan = std::move(without);
      smaller = true;
      break;
    }
    FaultPlan shorter = plan;
    --shorter.rounds;
    if (!smaller && shorter.rounds >= 1 && breaks(shorter)) {
      plan = shorter;
      smaller = true;
    }
  }
  return plan;
}

REEF_INLINE std::string report_of_violation(const FaultPlan& plan, const SimulatedWorld& world) {
  const FaultPlan small = shrink(plan, world);
  return concat(to_text(plan), "\n", simulate(plan, world).violation, "\nthe shortest plan found: ", to_text(small),
                "\n", simulate(small, world).violation);
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
