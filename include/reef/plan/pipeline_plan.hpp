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
  std::vector<Stage> stages{};  ///< the stages in order, each with its device; together they have all operators
  PipelineTime time{};          ///< the times of the plan; planners minimise time.pipelined, T, that of a whole batch
  Seconds lower_bound = 0;      ///< lower bound of T for all plans that were allowed, in seconds; 0: not known
  bool optimal = false;         ///< true: proven that no plan has a lower T; if not feasible, that none exists
  int effort = 0;               ///< the number of finished rounds of the search
  std::string why{};            ///< the reason why there is no plan, if not feasible
};

}  // namespace plan
}  // namespace v0
}  // namespace reef
