#pragma once

#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/pipeline_problem.hpp>
#include <reef/plan/pipeline_time.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// A plan of a pipeline: the device of each operator, or the reason why there is no plan.
struct PipelinePlan {
  bool feasible = false;
  /// The stages in order, each with its device; together they have all operators.
  std::vector<Stage> stages{};
  /// The times of the plan; planners minimise time.pipelined, T, that of a whole batch.
  PipelineTime time{};
  /// Lower bound of T for all plans that were allowed, in seconds; 0: not known.
  Seconds lower_bound = 0;
  /// True: proven that no plan has a lower T; if not feasible, that none exists.
  bool optimal = false;
  int effort = 0;     ///< the number of finished rounds of the search
  std::string why{};  ///< the reason why there is no plan, if not feasible
};

}  // namespace plan
}  // namespace v0
}  // namespace reef
