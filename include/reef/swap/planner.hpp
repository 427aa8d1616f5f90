#pragma once

#include <cstddef>
#include <cstdint>
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

namespace reef {
inline namespace v0 {
namespace swap {

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
    Bytes memory = 0;  ///< memory of the device
    std::int64_t accumulation = 1;
    std::span<const run::SwapSchedule> schedules{};
    std::vector<int> cuts{};  ///< given cuts, without 0 and the number of nodes; empty: all are tried
    std::vector<int> bounds{};  ///< bounds of chunks, where there are several: all cuts that are tried have them
    std::vector<run::Activations> activations{};  ///< given choices; empty: all are tried
    bool allows_resident_segments = false;        ///< true: segments may live on the device
  };

  using Programs = detail::Programs;

  /// Refers to `dag` and to `profile`, which is of that model; both outlive the planner.
  Planner(const graph::Dag& dag, const profile::Profile& profile, Limits limits, Programs programs)
      : dag_(dag),
        profile_(profile),
        limits_(std::move(limits)),
        evaluator_(profile, limits_.memory, std::move(programs)) {}

  /// Returns the figures to plan by: the profile of the options, else an estimate. The estimate of a host has its
  /// emulated link and slowdown and 50 GFLOP/s, whatever its threads, since ranks may differ in these; that of other
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
      result.host_bytes_per_second = 3e10;  // a copy reads twice and writes once
      return result;
    }
  }

  /// Returns the fastest choice that was found. Throws ScheduleError if no candidate fits, with the memory that the
  /// most modest one needs, and the segment that needs most of it.
  run::Choice choose();

private:
  using Candidate = detail::Candidate;

  static constexpr std::size_t refined = 4;
  /// The ratio of a step's time to that of its kernels, each once, up to which the swapping counts as hidden.
  static constexpr double hidden = 1.01;
  /// The most work on candidates whose segments are all treated alike: one bound for those that stream, one for others,
  /// and one for thinned ones.
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

  [[nodiscard]] std::set<std::vector<int>> partitions_to_try() const;

  [[nodiscard]] std::set<std::vector<int>> with_bounds(const std::set<std::vector<int>>& partitions) const;

  /// True if there is time to look at further candidates.
  [[nodiscard]] bool may_work() const { return evaluator_.work() <= most_; }

  /// Returns for each of these cuts, and each schedule that streams, or that does not, the fastest candidate whose
  /// segments are all treated alike.
  std::vector<Candidate> uniform(const std::set<std::vector<int>>& partitions, bool streams);

  void add_uniform(std::vector<Candidate>& found, const std::vector<int>& cuts, bool streams);

  /// Returns candidates with resident segments, where no other fits: a segment that lives on the device needs no slot,
  /// for which the largest may be too large.
  std::vector<Candidate> with_some_resident(const std::set<std::vector<int>>& partitions);

  /// Returns the candidate with the fewest first segments on the device that fits, the rest as modest as possible.
  Candidate fewest_resident(const std::vector<int>& cuts, const run::SwapSchedule& swapping);

  /// Returns the given activations, or one choice for all segments each, beginning with the one that keeps most.
  [[nodiscard]] std::vector<std::vector<run::Activations>> activations_to_try(
      std::size_t segments) const;

  Candidate fastest_uniform(const std::vector<int>& cuts, const run::SwapSchedule& swapping);

  /// Returns the cuts of the fastest candidates, without some or all of the bounds that many bytes cross: less is
  /// stashed, and some is computed again.
  std::set<std::vector<int>> thinned_to_try(const std::vector<Candidate>& from);

  /// Adds the fastest of these candidates with as many resident segments as there is memory for: with few slots, or
  /// with activations that take less, these are more.
  void add_resident(std::vector<Candidate>& candidates);

  /// Returns the candidate of a choice with the most first segments on the device that there is memory for.
  Candidate most_resident(const run::Choice& choice);

  /// Removes the fastest candidate and returns it. A time that was only a bound is computed first.
  Candidate take_fastest(std::vector<Candidate>& candidates);

  /// Returns the fastest of these candidates that differ in cuts, resident segments or slots of stashes, a few of them.
  std::vector<Candidate> fastest_of(std::vector<Candidate> left);

  /// Returns the candidates with the most segments, each of which may have other activations.
  static std::vector<Candidate> finest_of(const std::vector<Candidate>& candidates);

  /// Refines the candidates in `some`, and those that run micro-batch by micro-batch. A policy that knows only the
  /// latter begins with the same ones, so its plan is hardly ever better than the one found here.
  void refine(const std::vector<std::vector<Candidate>>& some,
              const std::vector<Candidate>& streaming);

  const graph::Dag& dag_;
  const profile::Profile& profile_;
  Limits limits_;
  detail::PlanEvaluator evaluator_;
  std::size_t most_ = 0;  ///< work after which no further candidate is looked at
};

}  // namespace swap
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swap/planner.ipp>
#endif
