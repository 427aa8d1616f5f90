#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
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
#include <reef/run/costs.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/simulate.hpp>

namespace reef::inline v0::swap {

namespace detail {

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

}  // namespace detail

/// Chooses cuts, activations and manner for a device: of candidates, the fastest that fits.
///
/// | cuts        | the best partitions of plan::partition_chain for this and for smaller capacities, since its |
/// |             | rules do not count what is kept between forward and backward; and cuts behind as many       |
/// |             | parameters each                                                                             |
/// | stays       | none; then, of the fastest, as many as there is memory for and as make it faster            |
/// | activations | the same for all segments; then, of the fastest, other ones for some: late ones, whose are  |
/// |             | needed soonest, or spread ones, which share link and processor out evenly                   |
///
/// What a candidate needs and takes is read off its own program: placed, so the memory is exact, and
/// simulated.
class Planner {
public:
  struct Limits {
    Bytes memory = 0;  ///< of the device
    std::int64_t accumulation = 1;
    std::span<const run::Swapping> manners{};
    std::vector<int> cuts{};  ///< given ones, without 0 and the number of nodes; else all are tried
    std::vector<run::Activations> activations{};  ///< given ones; else all are tried
    bool may_stay = false;                        ///< segments may live on the device
  };

  /// How a trainer writes its programs.
  struct Programs {
    std::function<run::StepPlan(const run::Choice&)> plan;
    std::function<run::PlacedProgram(const run::StepPlan&)> step;
    std::function<Bytes(const run::StepPlan&)> memory;  ///< on the device, of all that there are
  };

  /// `dag` and `profile` outlive it.
  Planner(const graph::Dag& dag, const profile::Profile& profile, Limits limits, Programs programs)
      : dag_(dag),
        profile_(profile),
        machine_(run::machine_of(profile)),
        limits_(std::move(limits)),
        programs_(std::move(programs)) {}

  /// What to plan by: the profile of the options, or an estimate of the device's kind: the link as it is
  /// emulated, and 50 GFLOP/s, whatever the threads, of which ranks may have different numbers; else a GPU
  /// behind 16 lanes of PCIe 4.
  ///
  /// Throws OptionError if the profile was measured on a device of another kind, or behind another link.
  template <class Device, class Options>
  static profile::Profile profile_of(const graph::Dag& dag, const Options& options) {
    if (options.profile) {
      require_profile_of_device<Device>(*options.profile, options);
      return *options.profile;
    }
    if constexpr (requires { options.device.link_bytes_per_second; }) {
      return graph::estimate(dag, {5e10, 1e10, options.device.link_bytes_per_second});
    } else {
      return graph::estimate(dag, {1e13, 1e12, 2e10});
    }
  }

  /// Throws ScheduleError, saying how much memory the most modest candidate needs, if none fits.
  run::Choice choose() {
    for (const std::vector<int>& cuts : cuts_to_try()) try_uniform(cuts);
    work_ = 0;
    for (const Place& place : fastest_places(refined_places)) refine(place);
    sort();
    for (Candidate& candidate : found_) {
      const Bytes bytes = programs_.memory(programs_.plan(candidate.choice));
      if (bytes <= limits_.memory) return std::move(candidate.choice);
      refuse(bytes);
    }
    throw ScheduleError(
        "reef::Trainer: no way was found to swap this model through a device of ", limits_.memory,
        " bytes, ", limits_.accumulation,
        " micro-batches a step.\n  why: the least that was found needs ", least_,
        " bytes.\n  fix: that much memory, a smaller micro-batch, or fewer of them.");
  }

private:
  static constexpr std::size_t refined_places = 2;
  /// Two predictions that no measurement tells apart.
  static constexpr double alike = 1.003;
  /// Instructions of programs that are judged to refine: some seconds' worth. A count, which ranks share.
  static constexpr std::size_t most_work = 300'000;

  struct Candidate {
    run::Choice choice;
    Seconds step = HUGE_VAL;  ///< or a bound, where that is more than the best
    Bytes moved = 0;
  };
  /// Cuts and a manner: where activations are still to be chosen.
  struct Place {
    std::vector<int> cuts;
    run::Swapping swapping;
    std::vector<run::Activations> activations;  ///< the fastest so far
    Seconds step = HUGE_VAL;
  };

  template <class Device, class Options>
  static void require_profile_of_device(const profile::Profile& profile, const Options& options) {
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
      const bool close = link <= 0 || (found > link / 1.5 && found < link * 1.5);
      if (!close)
        refuse(concat("its link gave ", found, " bytes a second, this device's gives ", link));
      if (options.device.threads > 0 && options.device.threads != profile.threads)
        refuse(
            concat("it had ", profile.threads, " threads, this one has ", options.device.threads));
    }
  }

  void refuse(Bytes bytes) { least_ = least_ == 0 ? bytes : std::min(least_, bytes); }

  /// The time of a step, HUGE_VAL if it does not fit; where it cannot be the best, a bound of that.
  Seconds judge(run::Choice choice) {
    const run::StepPlan plan = programs_.plan(choice);
    const run::PlacedProgram placed = programs_.step(plan);
    work_ += placed.program.round.size();
    if (placed.placement.device_bytes > limits_.memory) {
      refuse(placed.placement.device_bytes);
      return HUGE_VAL;
    }
    schedule::Program alone = placed.program;
    run::set_costs(alone, plan, profile_);
    detail::cut_off(alone);
    Seconds step = detail::least_step(alone, machine_);
    if (step <= alike * best_) {
      const auto world = schedule::World::uniform(1, machine_, {});
      const std::span placement(&placed.placement, 1);
      step = schedule::simulate(std::span(&alone, 1), placement, world, 1).total;
    }
    best_ = std::min(best_, step);
    found_.push_back({std::move(choice), step, detail::moved_bytes(alone)});
    return step;
  }

  void try_uniform(const std::vector<int>& cuts) {
    const std::size_t segments = cuts.size() - 1;
    const run::Swapping* too_many = nullptr;
    for (std::size_t m = 0; m < limits_.manners.size(); ++m) {
      const run::Swapping& swapping = limits_.manners[m];
      const auto as_before = [&](const run::Swapping& other) {
        run::Swapping same = swapping;
        same.slots = other.slots;
        return same == other;
      };
      // More slots than segments are none, and what does not fit with few does not fit with many.
      if (m > 0 && as_before(limits_.manners[m - 1]) &&
          static_cast<std::size_t>(limits_.manners[m - 1].slots) >= segments) {
        continue;
      }
      if (too_many != nullptr && as_before(*too_many)) continue;
      if (!try_manner(cuts, swapping)) too_many = &swapping;
    }
  }

  /// Something fits.
  bool try_manner(const std::vector<int>& cuts, const run::Swapping& swapping) {
    Place place{cuts, swapping, limits_.activations};
    if (!limits_.activations.empty()) place.step = judge({cuts, limits_.activations, swapping});
    for (const run::Activations activations : run::all_activations) {
      if (!limits_.activations.empty()) break;
      const std::vector<run::Activations> all(cuts.size() - 1, activations);
      const Seconds step = judge({cuts, all, swapping});
      if (step < place.step) {
        place.step = step;
        place.activations = all;
      }
      // Nothing else computes or moves less.
      if (activations == run::Activations::keep && step < HUGE_VAL) break;
    }
    if (place.step == HUGE_VAL) return false;
    places_.push_back(std::move(place));
    return true;
  }

  /// And the fastest that streams, so that no policy that only streams finds a better one.
  [[nodiscard]] std::vector<Place> fastest_places(std::size_t count) const {
    std::vector<Place> places = places_;
    std::stable_sort(places.begin(), places.end(),
                     [](const Place& a, const Place& b) { return a.step < b.step; });
    const auto rest = places.begin() + static_cast<std::ptrdiff_t>(std::min(places.size(), count));
    const auto streams =
        std::find_if(rest, places.end(), [](const Place& place) { return place.swapping.streams; });
    if (streams != places.end()) std::rotate(rest, streams, streams + 1);
    places.resize(std::min(places.size(), count + (streams != places.end() ? 1 : 0)));
    return places;
  }

  /// Changes what some segments keep, and how many stay on the device, as long as that is faster: what stays
  /// first, or last, since both take memory.
  void refine(const Place& place) {
    for (const bool stays_first : {true, false}) {
      Place now = place;
      for (Seconds before = HUGE_VAL; before > alike * now.step;) {
        before = now.step;
        if (stays_first) stay(now);
        mix(now);
        if (!stays_first) stay(now);
      }
    }
  }

  /// The first segments live on the device.
  void stay(Place& place) {
    if (!limits_.may_stay) return;
    const Place from = place;
    const int segments = static_cast<int>(from.cuts.size()) - 1;
    improve(place, segments - 1, [&](int stays) {
      Place changed = from;
      changed.swapping.stays = stays;
      return changed;
    });
  }

  /// Some segments, but the last, have other activations.
  void mix(Place& place) {
    const int segments = static_cast<int>(place.cuts.size()) - 2;
    const bool keeps = std::count(place.activations.begin(), place.activations.end(),
                                  run::Activations::keep) >= segments;
    if (keeps || segments < 2 || !limits_.activations.empty()) return;
    for (const run::Activations other : run::all_activations) {
      for (const bool spread : {false, true}) {
        const Place from = place;
        improve(place, segments, [&](int count) {
          Place changed = from;
          for (int s = 0; s < segments; ++s) {
            const bool changes =
                spread ? (s + 1) * count / segments > s * count / segments : s >= segments - count;
            if (changes) changed.activations[static_cast<std::size_t>(s)] = other;
          }
          return changed;
        });
      }
    }
  }

  /// The best of what `with` makes of a count from 0 to `most`, by ternary search: from there on it takes
  /// longer either way.
  template <class With>
  void improve(Place& place, int most, const With& with) {
    std::map<int, Seconds> known;
    const auto time_of = [&](int count) {
      const auto [entry, is_new] = known.try_emplace(count, HUGE_VAL);
      if (!is_new || work_ > most_work) return entry->second;
      Place changed = with(count);
      if (changed.activations == place.activations && changed.swapping == place.swapping) {
        return entry->second = place.step;
      }
      changed.step = judge({changed.cuts, changed.activations, changed.swapping});
      entry->second = changed.step;
      if (changed.step < place.step) place = std::move(changed);
      return entry->second;
    };
    int low = 0;
    int high = most;
    while (high - low > 2) {
      const int left = low + (high - low) / 3;
      const int right = high - (high - low) / 3;
      if (time_of(left) <= time_of(right)) {
        high = right;
      } else {
        low = left;
      }
    }
    for (int count = low; count <= high; ++count) time_of(count);
  }

  /// Of those that are alike, first what moves least: copies take the time of memory.
  void sort() {
    const auto key = [this](const Candidate& c) {
      const bool fast = c.step <= alike * best_;
      return std::tuple(!fast, fast ? 0 : c.step, c.moved, c.choice.cuts.size());
    };
    std::stable_sort(found_.begin(), found_.end(),
                     [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
  }

  [[nodiscard]] std::set<std::vector<int>> cuts_to_try() const {
    const int nodes = dag_.node_count();
    if (!limits_.cuts.empty()) {
      std::vector<int> cuts{0};
      cuts.insert(cuts.end(), limits_.cuts.begin(), limits_.cuts.end());
      cuts.push_back(nodes);
      graph::require_profile_of(dag_, profile_);
      return {std::move(cuts)};
    }
    std::set<std::vector<int>> all;
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
  schedule::Machine machine_;
  Limits limits_;
  Programs programs_;
  std::vector<Candidate> found_{};  ///< that fit
  std::vector<Place> places_{};
  Seconds best_ = HUGE_VAL;
  Bytes least_ = 0;  ///< of those that do not fit, the most modest
  std::size_t work_ = 0;
};

}  // namespace reef::inline v0::swap
