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
  std::vector<Stage> stages{};  ///< the stages, in order; together they have all operators
  PipelineTime time{};          ///< the times of the plan; planners minimise time.pipelined, T
  Seconds lower_bound = 0;      ///< a bound of T of all plans that were allowed; 0: not known
  bool optimal = false;         ///< proven: no plan has a lower T; if not feasible, none exists
  int effort = 0;               ///< the number of finished rounds of the search
  std::string why{};            ///< the reason, if not feasible
};

}  // namespace plan
}  // namespace v0
}  // namespace reef
