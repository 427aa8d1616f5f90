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

/// A planner of swapping between host and device: chooses cuts of the model, kept activations and a swap schedule for a
/// device, the fastest that fits.
///
/// | cuts        | the best partitions of plan::partition_chain, for this capacity and for        |
/// |             | smaller ones, since its rules do not count activations between forward and     |
/// |             | backward; cuts after equal shares of the parameters; and, except to run        |
/// |             | micro-batch by micro-batch, the fastest of these without some of the cuts that |
/// |             | many bytes cross. All of them contain the bounds of chunks                     |
/// | resident    | first no segment (as few as needed, if nothing else fits); then, with the      |
/// |             | fastest cuts, as many as fit; then as many as make the step faster             |
/// | activations | first one choice for all segments; then another one for some, in the four      |
/// |             | fastest candidates that differ in cuts, resident segments or stash slots: for  |
/// |             | late segments, whose activations are needed soonest, or for evenly spread      |
/// |             | ones, which balance link and processor; last for each segment separately. The  |
/// |             | same for four candidates of the most segments, four of fewer cuts, and four    |
/// |             | that run micro-batch by micro-batch. In the fastest of all and the fastest of  |
/// |             | these last, two segments change at once, or one more or less is resident       |
/// | slots       | those of the schedules; if activations are stashed, then more or fewer stash   |
/// |             | slots                                                                          |
///
/// The memory and the time of a candidate are those of its own program, placed and simulated: the memory is
/// exact, and waits for other ranks are left out of the time. Candidates whose segments are all treated alike are
/// evaluated first, then some hundreds or thousands of others, until a limit on the number of simulated instructions
/// is reached.
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
    Bytes memory = 0;  ///< memory of the device in bytes
    std::int64_t accumulation = 1;
    std::span<const run::SwapSchedule> schedules{};
    /// Fixed cuts of the model, without 0 and the number of nodes; empty: the planner chooses.
    std::vector<int> cuts{};
    std::vector<int> bounds{};  ///< bounds of pipeline chunks, if there are several: all cuts of the model contain them
    /// Fixed way of keeping activations for each segment; empty: the planner chooses.
    std::vector<run::Activations> activations{};
    bool allows_resident_segments = false;        ///< true: first segments of the model may stay on the device
  };

  using Programs = detail::Programs;

  /// Creates a planner that refers to `dag` and to `profile`, a profile of that model; both must outlive it.
  Planner(const graph::Dag& dag, const profile::Profile& profile, Limits limits, Programs programs)
      : dag_(dag),
        profile_(profile),
        limits_(std::move(limits)),
        evaluator_(profile, limits_.memory, std::move(programs)) {}

  /// Returns the profile to plan by: that of the options, else an estimate. The estimate for a host has its emulated
  /// link and slowdown and 50 GFLOP/s, for any number of threads, since ranks may differ in these; for other devices it
  /// is that of a GPU behind 16 lanes of PCIe 4.
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

  /// Returns the fastest way of swapping that was found. Throws ScheduleError if no candidate fits; the error states
  /// the memory that the smallest candidate needs, and the segment that needs most of it.
  run::Choice choose();

private:
  using Candidate = detail::Candidate;

  static constexpr std::size_t refined = 4;
  /// The largest ratio of a step's time to the sum of its kernels' times at which swapping counts as hidden.
  static constexpr double hidden = 1.01;
  /// The limit of simulated instructions for candidates whose segments are all treated alike: one limit for those that
  /// run micro-batch by micro-batch, one for the others, and one for those with fewer cuts.
  static constexpr std::size_t max_uniform_work = 10'000'000;

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

  /// Returns true if the limit of simulated instructions allows further candidates.
  [[nodiscard]] bool may_work() const { return evaluator_.work() <= max_; }

  /// Returns the fastest candidate plan whose segments are all treated alike, for each of `partitions` (cuts of the
  /// model) and each schedule whose per_micro_batch is `streams`.
  std::vector<Candidate> uniform(const std::set<std::vector<int>>& partitions, bool streams);

  void add_uniform(std::vector<Candidate>& found, const std::vector<int>& cuts, bool streams);

  /// Returns candidate plans in which some segments stay on the device, for use if no other fits: such a segment needs
  /// no swap buffer (slot), and the largest segment may be too large for slots.
  std::vector<Candidate> with_some_resident(const std::set<std::vector<int>>& partitions);

  /// Returns the candidate plan that fits with the fewest segments that stay on the device, with the activations that
  /// need least memory.
  Candidate fewest_resident(const std::vector<int>& cuts, const run::SwapSchedule& swapping);

  /// Returns the fixed ways of keeping activations, or each way for all segments, beginning with the one that keeps
  /// most.
  [[nodiscard]] std::vector<std::vector<run::Activations>> activations_to_try(
      std::size_t segments) const;

  Candidate fastest_uniform(const std::vector<int>& cuts, const run::SwapSchedule& swapping);

  /// Returns the cuts of the fastest candidate plans, less some or all of the cuts that many bytes cross: with longer
  /// segments, fewer bytes are copied to the host, and more activations are computed again.
  std::set<std::vector<int>> thinned_to_try(const std::vector<Candidate>& from);

  /// Adds the fastest candidate plans with as many segments staying on the device as fit, for each schedule and each
  /// way of keeping activations: with few buffers, or with activations that need less memory, more segments fit.
  void add_resident(std::vector<Candidate>& candidates);

  /// Returns `choice` with the largest number of segments that can stay on the device.
  Candidate max_resident(const run::Choice& choice);

  /// Removes the fastest candidate plan and returns it. A time that was only a bound is computed first.
  Candidate take_fastest(std::vector<Candidate>& candidates);

  /// Returns up to `refined` of the fastest candidate plans, which differ in cuts, segments that stay on the device, or
  /// buffers.
  std::vector<Candidate> fastest_of(std::vector<Candidate> left);

  /// Returns the candidate plans with the most segments, since each segment may have its own way of keeping
  /// activations.
  static std::vector<Candidate> finest_of(const std::vector<Candidate>& candidates);

  /// Improves the candidate plans in `some` and in `streaming` by local search; the evaluator keeps the best one. A
  /// policy whose schedules all run micro-batch by micro-batch starts from the same `streaming`, so its plan is hardly
  /// ever better than the one here.
  void refine(const std::vector<std::vector<Candidate>>& some,
              const std::vector<Candidate>& streaming);

  const graph::Dag& dag_;
  const profile::Profile& profile_;
  Limits limits_;
  detail::PlanEvaluator evaluator_;
  /// Limit of simulated instructions (evaluator_.work()): above it, no further candidate is evaluated.
  std::size_t max_ = 0;
};

}  // namespace swap
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swap/planner.ipp>
#endif
