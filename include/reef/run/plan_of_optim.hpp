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

/// The rule by which ranks that step on their own take an outer step, fragment by fragment.
///
/// | none  | after a step: the next waits for it                                                      |
/// | mix   | beside the next step, whose weights are then mixed with those that have arrived          |
/// | eager | beside the steps until all fragments are due again; until then own weights stand in      |
struct OuterSchedule {
  enum class Overlap : std::uint8_t { none, mix, eager };

  int every = 1;      ///< H: the steps from one outer step of a weight to its next
  int fragments = 1;  ///< F, at most H: equal shares of the weights
  Overlap overlap = Overlap::none;

  /// Returns a text that is equal for two schedules if weights and differences are the same ones at the same step.
  [[nodiscard]] std::string text() const;
};

/// The part of a StepPlan that belongs to the optimizer. Other axes do not read it: decision 050.
///
/// \code
/// run::StepPlan plan;
/// plan.outer_schedule = {.every = 30, .fragments = 3};
/// \endcode
struct PlanOfOptim {
  bool own_master = false;    ///< the optimizer keeps master weights also of weights that are no narrower
  int max_micro_batches = 0;  ///< most micro-batches of a rank in a phase that adapts; 0 is no bound
  OuterSchedule outer_schedule{};         ///< outer steps of ranks that step on their own
  std::vector<ParameterGroup> groups{};   ///< groups of parameters that are updated otherwise
  std::vector<int> group_of_parameter{};  ///< group by parameter; -1: none; empty: there are no groups
  WholeMatrices matrices{};               ///< whole matrices of the update rule, which no shard cuts
  std::vector<int>
      states_of_parameter{};  ///< number of the rule's states, the first, that the weights of a parameter keep; empty: all
  std::array<bool, schedule::traffic_count> gathers{};  ///< by Traffic: true if the optimizer has all-gathers of it

  /// Notes that weights that arrive are not those that were sent, so that their owners keep master weights.
  void keep_own_master() { own_master = true; }

  [[nodiscard]] bool gathers_of(schedule::Traffic traffic) const {
    return gathers[static_cast<std::size_t>(traffic)];
  }

  /// Returns the options of a parameter that differ from the rest; null where it has none.
  [[nodiscard]] const ParameterGroup* group_of(std::size_t parameter) const& {
    if (groups.empty() || group_of_parameter[parameter] < 0) return nullptr;
    return &groups[static_cast<std::size_t>(group_of_parameter[parameter])];
  }
  void group_of(std::size_t) const&& = delete;

  /// Returns the place of a parameter's update rule in a composed rule.
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
