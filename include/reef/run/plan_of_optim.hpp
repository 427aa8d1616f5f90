#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/run/parameter_group.hpp>
#include <reef/run/whole_matrices.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The schedule of DiLoCo's outer steps, in which ranks that train on their own average a fragment (share) of their
/// weights.
///
/// | none  | an outer step runs after a step, and the next step waits for it                               |
/// | mix   | an outer step runs beside the next step, whose weights are then mixed with the average        |
/// | eager | an outer step runs beside all steps until the fragment's next one; until then each rank's own |
/// |       | weights stand in for the average                                                              |
struct OuterSchedule {
  enum class Overlap : std::uint8_t { none, mix, eager };

  int every = 1;      ///< number H of inner steps between two outer steps of the same weight
  int fragments = 1;  ///< number F, at most H, of equal shares into which the weights are divided
  Overlap overlap = Overlap::none;

  /// Returns a text that is equal for two schedules if they exchange the same weights and differences at each step.
  [[nodiscard]] std::string text() const;
};

/// The part of a training plan (StepPlan) that the optimizer fills in. Other policies do not read it.
///
/// \code
/// run::StepPlan plan;
/// plan.outer_schedule = {.every = 30, .fragments = 3};
/// \endcode
struct PlanOfOptim {
  bool own_master = false;    ///< true: the optimizer keeps master weights even if the model's weights are as wide
  /// The most micro-batches of a rank in an accumulation phase of adaptive length; 0: no limit.
  int max_micro_batches = 0;
  OuterSchedule outer_schedule{};         ///< schedule of DiLoCo's outer steps, of ranks that train on their own
  std::vector<ParameterGroup> groups{};   ///< the groups of parameters that have options of their own
  std::vector<int> group_of_parameter{};  ///< the index of each parameter's group; -1: none; empty: there are no groups
  WholeMatrices matrices{};  ///< the parameters that the update rule treats as whole matrices, which no shard cuts
  std::vector<int>
      /// For each parameter, how many of the update rule's states it keeps, from the first; empty: all.
      states_of_parameter{};
  /// For each sort of messages: true if the optimizer all-gathers them.
  std::array<bool, schedule::traffic_count> gathers{};

  /// Notes that received weights differ from those sent, as a codec is lossy, so that their owners keep exact master
  /// weights.
  void keep_own_master() { own_master = true; }

  [[nodiscard]] bool gathers_of(schedule::Traffic traffic) const {
    return gathers[static_cast<std::size_t>(traffic)];
  }

  /// Returns the group of options of a parameter, or null if it is in none.
  [[nodiscard]] const ParameterGroup* group_of(std::size_t parameter) const& {
    if (groups.empty() || group_of_parameter[parameter] < 0) return nullptr;
    return &groups[static_cast<std::size_t>(group_of_parameter[parameter])];
  }
  void group_of(std::size_t) const&& = delete;

  /// Returns the index of a parameter's update rule among those of an optim::PerGroup.
  [[nodiscard]] int rule_of(std::size_t parameter) const {
    const ParameterGroup* const group = group_of(parameter);
    return group == nullptr ? 0 : group->rule;
  }
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/plan_of_optim.ipp>
#endif
