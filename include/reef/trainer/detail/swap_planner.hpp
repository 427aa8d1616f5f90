#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/plan/partition_chain.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/detail/simulator.hpp>
#include <reef/schedule/program.hpp>
#include <reef/trainer/options.hpp>

namespace reef::inline v0::detail {

/// What there is to choose where a model is swapped.
struct SwapChoice {
  std::vector<int> cuts;  ///< 0, the first nodes of further segments, the number of nodes
  bool recomputes = false;
  run::Swapping swapping{};

  /// What options say, or of a planned choice a possibility.
  void set(Activations activations) {
    recomputes =
        activations == Activations::recompute || activations == Activations::recompute_and_stash;
    swapping.stashes =
        activations == Activations::stash || activations == Activations::recompute_and_stash;
  }
  [[nodiscard]] Activations activations() const {
    if (recomputes) {
      return swapping.stashes ? Activations::recompute_and_stash : Activations::recompute;
    }
    return swapping.stashes ? Activations::stash : Activations::keep;
  }
};

/// What a choice comes to: figures of the programs that it gives.
struct SwapOutcome {
  Bytes device_bytes = 0;
  Seconds step = 0;
  Bytes moved = 0;  ///< over the link
};

/// What a device of this kind does where nobody has measured: the link as it is emulated, and 50 GFLOP/s,
/// whatever the threads, of which ranks may have different numbers; else a GPU behind 16 lanes of PCIe 4.
template <class Options>
graph::Speed usual_speed(const Options& options) {
  if constexpr (requires { options.device.link_bytes_per_second; }) {
    return {5e10, 1e10, options.device.link_bytes_per_second};
  } else {
    return {1e13, 1e12, 2e10};
  }
}

/// Takes out what is told to other ranks, for a simulation of one alone.
inline void cut_off(schedule::Program& program) {
  program.rank = 0;
  for (schedule::Instruction& instruction : program.round) {
    instruction.sends.clear();
    instruction.receives.clear();
  }
}

/// What a program takes over the link.
inline Bytes moved_bytes(const schedule::Program& program) {
  Bytes bytes = 0;
  for (const schedule::Instruction& instruction : program.round) {
    const bool moves =
        instruction.lane == schedule::Lane::load || instruction.lane == schedule::Lane::evict;
    if (moves) bytes += instruction.cost.bytes;
  }
  return bytes;
}

/// No step is shorter: all that the compute lane does, or all that comes over the link, or all that leaves.
inline Seconds least_step(const schedule::Program& program, const schedule::Machine& machine) {
  std::array<Seconds, schedule::lane_count> busy{};
  for (const schedule::Instruction& instruction : program.round) {
    busy[static_cast<std::size_t>(instruction.lane)] +=
        schedule::detail::duration_of(instruction, machine);
  }
  return *std::max_element(busy.begin(), busy.end());
}

/// Throws OptionError if a profile was measured on a device of another kind, or behind another link.
template <class Device, class Options>
void require_profile_of_device(const profile::Profile& profile, const Options& options) {
  const auto refuse = [](const std::string& why) {
    throw OptionError("reef::Trainer: the profile is of another device: ", why,
                      ".\n  fix: measure on this one.");
  };
  if (!profile.measured) return;
  if (profile.device != Device::name)
    refuse(concat("it was measured on '", profile.device, "', this is '", Device::name, "'"));
  if constexpr (requires { options.device.link_bytes_per_second; }) {
    const double link = options.device.link_bytes_per_second;
    const double found = profile.copy_bytes_per_second;
    const bool alike = link <= 0 || (found > link / 1.5 && found < link * 1.5);
    if (!alike)
      refuse(concat("its link gave ", found, " bytes a second, this device's gives ", link));
    if (options.device.threads > 0 && options.device.threads != profile.threads)
      refuse(concat("it had ", profile.threads, " threads, this one has ", options.device.threads));
  }
}

/// Chooses cuts, recomputation and manner for a device: of candidates, the fastest that fits.
///
/// Candidates are the best partitions of plan::partition_chain for this and for smaller capacities, since
/// its rules do not count what is kept between forward and backward; and cuts behind as many parameters
/// each. What a candidate needs and takes is read off its own program: placed, so the memory is exact, and
/// simulated.
class SwapPlanner {
public:
  struct Limits {
    Bytes memory = 0;  ///< of the device
    std::int64_t accumulation = 1;
    std::vector<Activations> activations{};  ///< what may be chosen from
    std::span<const run::Swapping> manners{};
    std::vector<int>
        cuts{};  ///< that are given, without 0 and the number of nodes; else all are tried
  };
  /// The memory of the step alone, and, if that is there, its time; a bound of that is enough where it is
  /// more than the best so far.
  using Judge = std::function<SwapOutcome(const SwapChoice&, Seconds best)>;
  /// The memory of all that a trainer does.
  using Fits = std::function<Bytes(const SwapChoice&)>;

  SwapPlanner(const graph::Dag& dag, const profile::Profile& profile, Limits limits)
      : dag_(dag), profile_(profile), limits_(std::move(limits)) {}

  /// Throws ScheduleError, saying how much memory the most modest candidate needs, if none fits.
  SwapChoice choose(const Judge& judge, const Fits& needs) const {
    struct Candidate {
      SwapChoice choice;
      SwapOutcome outcome;
    };
    std::vector<Candidate> found;
    Seconds best = HUGE_VAL;
    Bytes least = 0;
    const auto refuse_less = [&](Bytes bytes) {
      least = least == 0 ? bytes : std::min(least, bytes);
    };
    for (const std::vector<int>& cuts : candidates()) {
      for (const run::Swapping& swapping : limits_.manners) {
        for (const Activations activations : limits_.activations) {
          SwapChoice choice{cuts, false, swapping};
          choice.set(activations);
          const SwapOutcome outcome = judge(choice, best);
          if (!fits(outcome.device_bytes)) {
            refuse_less(outcome.device_bytes);
            continue;
          }
          best = std::min(best, outcome.step);
          found.push_back({std::move(choice), outcome});
          if (activations == Activations::keep) break;  // nothing else computes or moves less
        }
      }
    }
    // Of those that are as fast but for what no prediction tells apart, what moves least: copies take the
    // time of memory.
    std::stable_sort(found.begin(), found.end(), [&](const Candidate& a, const Candidate& b) {
      const auto key = [&](const Candidate& c) {
        const bool as_fast = c.outcome.step <= 1.003 * best;
        return std::tuple(!as_fast, as_fast ? 0 : c.outcome.step, c.outcome.moved,
                          c.choice.cuts.size());
      };
      return key(a) < key(b);
    });
    for (Candidate& candidate : found) {
      const Bytes bytes = needs(candidate.choice);
      if (fits(bytes)) return std::move(candidate.choice);
      refuse_less(bytes);
    }
    throw ScheduleError(
        "reef::Trainer: no way was found to swap this model through a device of ", limits_.memory,
        " bytes, ", limits_.accumulation,
        " micro-batches a step.\n  why: the least that was found needs ", least,
        " bytes.\n  fix: that much memory, a smaller micro-batch, or fewer of them.");
  }

private:
  [[nodiscard]] bool fits(Bytes bytes) const { return bytes <= limits_.memory; }

  [[nodiscard]] std::set<std::vector<int>> candidates() const {
    std::set<std::vector<int>> all;
    const int nodes = dag_.node_count();
    if (!limits_.cuts.empty()) {
      std::vector<int> cuts{0};
      cuts.insert(cuts.end(), limits_.cuts.begin(), limits_.cuts.end());
      cuts.push_back(nodes);
      graph::require_profile_of(dag_, profile_);
      return {std::move(cuts)};
    }
    Bytes parameters = 0;
    for (const graph::Parameter& parameter : dag_.parameters) parameters += parameter.spec.bytes();
    for (const Bytes parts : {2, 4, 8, 16}) {
      all.insert(run::choose_cuts(dag_, parameters / parts + 1));
    }
    all.insert(run::choose_cuts(dag_, 1));  // one where parameters are first used
    const plan::Chain chain = graph::chain_of(dag_, profile_);
    if (nodes >= 2 && nodes <= plan::most_operators) {
      Bytes memory = limits_.memory;
      for (int tried = 0; tried < 8; ++tried, memory = memory / 3 * 2) {
        const plan::Partition best =
            plan::partition_chain(chain, {memory, limits_.accumulation, plan::Variant::soft});
        if (!best.feasible) break;
        all.insert(best.bounds);
      }
    }
    return all;
  }

  const graph::Dag& dag_;
  const profile::Profile& profile_;
  Limits limits_;
};

}  // namespace reef::inline v0::detail
