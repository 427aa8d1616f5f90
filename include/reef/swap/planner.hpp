#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/swap/detail/cuts_to_try.hpp>
#include <reef/swap/detail/local_search.hpp>
#include <reef/swap/detail/plan_evaluator.hpp>

namespace reef::inline v0::swap {

/// Chooses cuts, activations and swap schedule for a device: of candidates, the fastest that fits.
///
/// | cuts        | the best partitions of plan::partition_chain, for this capacity and for        |
/// |             | smaller ones, since its rules do not count activations between forward and     |
/// |             | backward; cuts behind equal shares of the parameters; and, except to run       |
/// |             | micro-batch by micro-batch, the fastest of these without some of the cuts that |
/// |             | many bytes cross. Bounds of chunks are among them all                          |
/// | resident    | no segment (as few as must be, where nothing else fits); then, with the        |
/// |             | fastest cuts, as many as there is memory for; then as many as make it faster   |
/// | activations | the same for all segments; then other ones for some, in the four fastest that  |
/// |             | differ in cuts, resident segments or slots of stashes: for late segments,      |
/// |             | whose activations are needed soonest, or for spread ones, which share link and |
/// |             | processor out evenly; and last for each segment by itself. The same with as    |
/// |             | many candidates of the most segments, of fewer cuts, and of those that run     |
/// |             | micro-batch by micro-batch. In the fastest of all and the fastest of the       |
/// |             | latter two segments change at once, or one more or less is resident            |
/// | slots       | those of the schedules; where something is stashed, then more or fewer for     |
/// |             | that                                                                           |
///
/// The memory and the time of a candidate are those of its own program, placed and simulated: the memory is
/// exact, and waits for other ranks are left out of the time. Candidates whose segments are all treated alike are
/// looked at first, then some hundreds or thousands of others, as many as bounds on their instructions leave
/// room for.
///
/// \code
/// // given: const graph::Dag& dag, const profile::Profile& profile
/// // given: swap::Planner::Programs programs
/// constexpr auto schedules = swap::Atom<>::schedules();
/// const swap::Planner::Limits limits{.memory = 64_MiB, .accumulation = 4, .schedules = schedules};
/// swap::Planner planner(dag, profile, limits, std::move(programs));
/// const run::Choice fastest = planner.choose();
/// \endcode
class Planner {
public:
  struct Limits {
    Bytes memory = 0;  ///< of the device
    std::int64_t accumulation = 1;
    std::span<const run::SwapSchedule> schedules{};
    std::vector<int> cuts{};  ///< given ones, without 0 and the number of nodes; else all are tried
    std::vector<int> bounds{};  ///< of chunks, where there are several: they are among all cuts that are tried
    std::vector<run::Activations> activations{};  ///< given ones; else all are tried
    bool allows_resident_segments = false;        ///< segments may live on the device
  };

  using Programs = detail::Programs;

  /// `dag` and `profile`, which is of it, outlive it.
  Planner(const graph::Dag& dag, const profile::Profile& profile, Limits limits, Programs programs)
      : dag_(dag),
        profile_(profile),
        limits_(std::move(limits)),
        evaluator_(profile, limits_.memory, std::move(programs)) {}

  /// The figures to plan by: the profile of the options, else an estimate. The estimate of a host is of its emulated
  /// link and slowdown and of 50 GFLOP/s, whatever its threads, since ranks may differ in these; that of other
  /// devices is of a GPU behind 16 lanes of PCIe 4.
  ///
  /// Throws OptionError if the profile is of another model, or was measured on a device of another kind, behind
  /// another link, slowed down otherwise, or with other threads than the options say.
  template <class Device, class Options>
  static profile::Profile profile_of(const graph::Dag& dag, const Options& options) {
    if (options.profile) {
      graph::require_profile_of(dag, *options.profile);
      require_profile_of_device<Device>(*options.profile, options);
      return *options.profile;
    }
    if constexpr (requires { options.device.link_bytes_per_second; }) {
      const auto& device = options.device;
      profile::Profile result = graph::estimate(
          dag, {5e10 / device.slowdown, 1e10 / device.slowdown, device.link_bytes_per_second});
      result.copy_latency = device.link_latency;
      return result;
    } else {
      profile::Profile result = graph::estimate(dag, {1e13, 1e12, 2e10});
      result.host_bytes_per_second = 3e10;  // two reads beside one write
      return result;
    }
  }

  /// Throws ScheduleError if none fits, saying how much memory the most modest one needs, and which of its
  /// segments most.
  run::Choice choose() {
    const std::set<std::vector<int>> partitions = partitions_to_try();
    // Those that stream come first, so a policy that does nothing else looks at no others.
    std::vector<Candidate> streaming = uniform(partitions, true);
    std::vector<Candidate> all = uniform(partitions, false);
    all.insert(all.begin(), streaming.begin(), streaming.end());
    if (all.empty()) all = with_some_resident(partitions);
    std::vector<Candidate> thinned = uniform(thinned_to_try(all), false);
    add_resident(all);
    add_resident(thinned);
    refine({fastest_of(finest_of(all)), fastest_of(std::move(all)), fastest_of(std::move(thinned))},
           fastest_of(std::move(streaming)));
    if (std::optional<run::Choice> best = evaluator_.best()) return *std::move(best);
    throw ScheduleError("reef::Trainer: no way was found to swap this model through a device of ",
                        limits_.memory, " bytes, ", limits_.accumulation,
                        " micro-batches a step.\n  why: ", evaluator_.why_none(),
                        ".\n  fix: that much memory, a smaller micro-batch, or fewer of them.");
  }

private:
  using Candidate = detail::Candidate;

  static constexpr std::size_t refined = 4;
  /// A step that takes no longer than so many times its kernels, each once, has its swapping hidden.
  static constexpr double hidden = 1.01;
  /// Of those whose segments are all treated alike: for those that stream, for others, and for thinned ones, each.
  static constexpr std::size_t most_uniform_work = 10'000'000;

  template <class Device, class Options>
  static void require_profile_of_device(const profile::Profile& profile, const Options& options) {
    const auto refuse = [](const std::string& why) {
      throw OptionError("reef::Trainer: the profile is of another device: ", why,
                        ".\n  fix: measure on such a device.");
    };
    if (!profile.measured) return;
    if (profile.device != Device::name)
      refuse(concat("it was measured on '", profile.device, "', this is '", Device::name, "'"));
    if constexpr (requires { options.device.link_bytes_per_second; }) {
      const auto same = [&](const char* what, double profiled, double asked, const char* unit) {
        if (profiled == asked) return;
        refuse(concat("its ", what, " was ", profiled, unit,
                      ", this one's, or that of the slowest of all ranks, is ", asked, unit));
      };
      const auto& device = options.device;
      same("link's bandwidth", profile.link_bytes_per_second, device.link_bytes_per_second, " B/s");
      same("link's latency", profile.link_latency, device.link_latency, " s");
      same("kernels' slowdown", profile.slowdown, device.slowdown, "");
      if (options.device.threads > 0 && options.device.threads != profile.threads)
        refuse(
            concat("it had ", profile.threads, " threads, this one has ", options.device.threads));
    }
  }

  [[nodiscard]] std::set<std::vector<int>> partitions_to_try() const {
    if (limits_.cuts.empty())
      return with_bounds(
          detail::cuts_to_try(dag_, profile_, limits_.memory, limits_.accumulation));
    std::vector<int> cuts{0};
    cuts.insert(cuts.end(), limits_.cuts.begin(), limits_.cuts.end());
    cuts.push_back(dag_.node_count());
    return {std::move(cuts)};
  }

  [[nodiscard]] std::set<std::vector<int>> with_bounds(const std::set<std::vector<int>>& partitions) const {
    std::set<std::vector<int>> all;
    for (const std::vector<int>& cuts : partitions) {
      std::vector<int> both;
      std::set_union(cuts.begin(), cuts.end(), limits_.bounds.begin(), limits_.bounds.end(),
                     std::back_inserter(both));
      all.insert(std::move(both));
    }
    return all;
  }

  /// There is time to look at further ones.
  [[nodiscard]] bool may_work() const { return evaluator_.work() <= most_; }

  /// Of each of these cuts and each schedule that does, or does not, stream: where segments are all
  /// treated alike, the fastest.
  std::vector<Candidate> uniform(const std::set<std::vector<int>>& partitions, bool streams) {
    most_ = evaluator_.work() + most_uniform_work;
    std::vector<Candidate> found;
    for (const std::vector<int>& cuts : partitions) {
      if (found.empty() || may_work()) add_uniform(found, cuts, streams);
    }
    return found;
  }

  void add_uniform(std::vector<Candidate>& found, const std::vector<int>& cuts, bool streams) {
    const std::size_t segments = cuts.size() - 1;
    const run::SwapSchedule* too_many = nullptr;
    for (std::size_t m = 0; m < limits_.schedules.size(); ++m) {
      const run::SwapSchedule& swapping = limits_.schedules[m];
      if (swapping.per_micro_batch != streams) continue;
      const auto as_before = [&](const run::SwapSchedule& other) {
        run::SwapSchedule same = swapping;
        same.slots = other.slots;
        same.stash_slots = std::min(same.stash_slots, other.stash_slots);  // no less than that
        return same == other;
      };
      // More slots than segments are none (those for stashes are changed later), and what does not fit
      // with few does not fit with many.
      if (m > 0 && as_before(limits_.schedules[m - 1]) &&
          static_cast<std::size_t>(limits_.schedules[m - 1].slots) >= segments) {
        continue;
      }
      if (too_many != nullptr && as_before(*too_many)) continue;
      Candidate fastest = fastest_uniform(cuts, swapping);
      if (fastest.step < detail::never) {
        found.push_back(std::move(fastest));
      } else {
        too_many = &swapping;
      }
    }
  }

  /// Where nothing fits: a segment that lives on the device needs no slot, which the largest may then be too
  /// large for.
  std::vector<Candidate> with_some_resident(const std::set<std::vector<int>>& partitions) {
    std::vector<Candidate> found;
    if (!limits_.allows_resident_segments) return found;
    most_ = evaluator_.work() + most_uniform_work;
    for (const std::vector<int>& cuts : partitions) {
      for (const run::SwapSchedule& swapping : limits_.schedules) {
        if (swapping.slots > limits_.schedules.front().slots) continue;  // takes more memory
        const Candidate fewest = fewest_resident(cuts, swapping);
        if (fewest.step < detail::never) found.push_back(fewest);
      }
    }
    return found;
  }

  /// With as many first segments as must live on the device, and the rest as modest as may be.
  Candidate fewest_resident(const std::vector<int>& cuts, const run::SwapSchedule& swapping) {
    Candidate next{{cuts, activations_to_try(cuts.size() - 1).back(), swapping}};
    int& resident = next.choice.swapping.resident_segments;
    for (resident = 1; resident + 1 < static_cast<int>(cuts.size()) && may_work(); ++resident) {
      next.step = evaluator_.step_of(next.choice);
      if (next.step < detail::never) break;
    }
    return next;
  }

  /// Given ones, or the same for all segments, those of which most is kept first.
  [[nodiscard]] std::vector<std::vector<run::Activations>> activations_to_try(
      std::size_t segments) const {
    if (!limits_.activations.empty()) return {limits_.activations};
    std::vector<std::vector<run::Activations>> all;
    for (const run::Activations one : run::all_activations) all.emplace_back(segments, one);
    return all;
  }

  Candidate fastest_uniform(const std::vector<int>& cuts, const run::SwapSchedule& swapping) {
    Candidate fastest;
    for (const std::vector<run::Activations>& activations : activations_to_try(cuts.size() - 1)) {
      Candidate next{{cuts, activations, swapping}};
      next.step = evaluator_.step_of(next.choice);
      const bool fits = next.step < detail::never;
      fastest = detail::faster(fastest, next);
      // Of those of which as many stay, nothing else computes or moves less.
      if (activations.front() == run::Activations::keep && fits) break;
    }
    return fastest;
  }

  /// The fastest cuts, without some or all of the bounds that much crosses: less is stashed, and some is
  /// computed again.
  std::set<std::vector<int>> thinned_to_try(const std::vector<Candidate>& from) {
    std::set<std::vector<int>> all;
    const std::vector<Candidate> fastest = fastest_of(from);
    const Seconds kernels =
        static_cast<double>(limits_.accumulation) * (profile_.forward_s() + profile_.backward_s());
    const bool nothing_to_gain = !fastest.empty() && fastest.front().step <= hidden * kernels;
    if (!limits_.cuts.empty() || nothing_to_gain) return all;
    for (const Candidate& fast : fastest) {
      for (const int quarters : {1, 2, 3, 4}) {
        all.insert(detail::thinned(dag_, fast.choice.cuts, quarters, 4));
      }
    }
    all = with_bounds(all);
    for (const Candidate& known : from) all.erase(known.choice.cuts);
    return all;
  }

  /// Of the fastest of these, as many segments as there is memory for live on the device: with few slots, or
  /// with less that is kept, they are more.
  void add_resident(std::vector<Candidate>& candidates) {
    if (!limits_.allows_resident_segments) return;
    for (const Candidate& fast : fastest_of(candidates)) {
      most_ = evaluator_.work() + detail::LocalSearch::most_work;
      for (const run::SwapSchedule& swapping : limits_.schedules) {
        for (const auto& activations : activations_to_try(fast.choice.activations.size())) {
          const Candidate most = most_resident({fast.choice.cuts, activations, swapping});
          if (most.step < detail::never) candidates.push_back(most);
        }
      }
    }
  }

  /// With the most first segments that there is memory for.
  Candidate most_resident(const run::Choice& choice) {
    Candidate most{choice};
    int low = 0;
    int high = static_cast<int>(choice.cuts.size()) - 2;
    while (low < high && may_work()) {
      Candidate more = most;
      more.choice.swapping.resident_segments = (low + high + 1) / 2;
      more.step = evaluator_.step_of(more.choice);
      if (more.step < detail::never) {
        low = more.choice.swapping.resident_segments;
        most = std::move(more);
      } else {
        high = more.choice.swapping.resident_segments - 1;
      }
    }
    return most;
  }

  /// Takes the fastest out of those that there are. What was a bound is one no more.
  Candidate take_fastest(std::vector<Candidate>& candidates) {
    for (;;) {
      const auto first =
          std::min_element(candidates.begin(), candidates.end(),
                           [](const Candidate& a, const Candidate& b) { return a.step < b.step; });
      const Seconds step = evaluator_.step_of(first->choice, detail::never);
      if (step == first->step) {
        Candidate fastest = std::move(*first);
        candidates.erase(first);
        return fastest;
      }
      first->step = step;
    }
  }

  /// Some of these, the fastest, that differ in cuts or in how many segments stay.
  std::vector<Candidate> fastest_of(std::vector<Candidate> left) {
    std::vector<Candidate> fastest;
    while (!left.empty() && fastest.size() < refined) {
      Candidate next = take_fastest(left);
      const auto is_alike = [&](const Candidate& other) {
        return other.choice.cuts == next.choice.cuts &&
               other.choice.swapping.resident_segments == next.choice.swapping.resident_segments &&
               other.choice.swapping.stash_slots == next.choice.swapping.stash_slots;
      };
      if (std::none_of(fastest.begin(), fastest.end(), is_alike))
        fastest.push_back(std::move(next));
    }
    return fastest;
  }

  /// Those with the most segments, each of which may keep something else.
  static std::vector<Candidate> finest_of(const std::vector<Candidate>& candidates) {
    std::size_t most = 0;
    for (const Candidate& one : candidates) most = std::max(most, one.choice.cuts.size());
    std::vector<Candidate> finest;
    for (const Candidate& one : candidates) {
      if (one.choice.cuts.size() == most) finest.push_back(one);
    }
    return finest;
  }

  /// Refines these candidates and those that run micro-batch by micro-batch. A policy that knows
  /// only the latter begins with the same ones, so its plan is hardly ever better than the one
  /// found here.
  void refine(const std::vector<std::vector<Candidate>>& some,
              const std::vector<Candidate>& streaming) {
    detail::LocalSearch search(evaluator_,
                               {limits_.activations.empty(), limits_.allows_resident_segments});
    std::vector<std::pair<run::Choice, Candidate>> known;  // and what has become of them
    const auto refined_of = [&](const Candidate& candidate) {
      for (const auto& [choice, became] : known) {
        if (choice == candidate.choice) return became;
      }
      return known.emplace_back(candidate.choice, search.refine(candidate)).second;
    };
    Candidate best;
    for (const std::vector<Candidate>& group : some) {
      for (const Candidate& candidate : group) best = detail::faster(best, refined_of(candidate));
    }
    Candidate streams;
    for (const Candidate& candidate : streaming) {
      streams = detail::faster(streams, refined_of(candidate));
    }
    search.trade_memory(best);
    if (streams.choice != best.choice) search.trade_memory(streams);
  }

  const graph::Dag& dag_;
  const profile::Profile& profile_;
  Limits limits_;
  detail::PlanEvaluator evaluator_;
  std::size_t most_ = 0;  ///< work after which nothing more is looked at
};

}  // namespace reef::inline v0::swap
