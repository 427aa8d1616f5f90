#pragma once

#include <array>
#include <set>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/draws.hpp>
#include <reef/swarm/core/fault_plan.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

namespace detail {

inline constexpr std::array<const char*, 15> fault_names{"kill",      "restart", "pause",  "stall",
                                                         "cut_off",   "deaf",    "no_log", "isolate",
                                                         "no_answer", "corrupt", "leave",  "join",
                                                         "spoil",     "poison",  "slow"};
inline constexpr std::array<const char*, 4> phase_names{"accumulate", "exchange", "ready", "applied"};

}  // namespace detail

REEF_INLINE FaultPlan drawn_plan(std::uint64_t seed) {
  detail::Draws draws(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<int>(draws.below(n)); };
  FaultPlan plan;
  plan.seed = seed;
  plan.peers = 2 + below(5);
  plan.rounds = 4 + below(5);
  const int faults = below(5);
  std::set<int> ended;  // peers that do not come back
  for (int i = 0; i < faults; ++i) {
    Fault fault;
    fault.kind = static_cast<FaultKind>(below(detail::fault_names.size()));
    fault.peer = below(static_cast<std::uint64_t>(plan.peers));
    fault.round = below(static_cast<std::uint64_t>(plan.rounds));
    fault.phase = static_cast<FaultPhase>(below(detail::phase_names.size()));
    fault.seconds = 0.5 + 0.5 * below(30);
    // Parts that arrive within SimulatedWorld's exchange deadline are waited for.
    if (fault.kind == FaultKind::slow) fault.seconds += 10;
    const bool ends =
        fault.kind == FaultKind::kill || fault.kind == FaultKind::leave || fault.kind == FaultKind::restart;
    if (ends) {
      // Two survive all faults, so that no committed result is lost with its last holder.
      if (!ended.contains(fault.peer) && static_cast<int>(ended.size()) + 2 >= plan.peers)
        fault.kind = FaultKind::pause;
      else
        ended.insert(fault.peer);
    }
    plan.faults.push_back(fault);
  }
  return plan;
}

REEF_INLINE std::string to_text(const FaultPlan& plan) {
  std::string text = concat("seed ", plan.seed, ", ", plan.peers, " peers, ", plan.rounds, " rounds");
  for (const Fault& fault : plan.faults) {
    text += concat("\n  ", detail::fault_names[static_cast<std::size_t>(fault.kind)], " peer ", fault.peer,
                   " in round ", fault.round, ", ", detail::phase_names[static_cast<std::size_t>(fault.phase)], ", ",
                   fault.seconds, " s");
  }
  return text;
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
