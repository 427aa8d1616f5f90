#pragma once

#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/pipeline_problem.hpp>
#include <reef/plan/pipeline_time.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Which device runs which operators, or why there is no way.
struct PipelinePlan {
  bool feasible = false;
  std::vector<Stage> stages{};  ///< in order; together all operators
  PipelineTime time{};          ///< time.pipelined is T
  Seconds lower_bound = 0;      ///< no plan of what was searched takes less; 0: not known
  bool optimal = false;         ///< proven: none takes less or, where not feasible, there is none
  int effort = 0;               ///< rounds that were searched
  std::string why{};            ///< where not feasible
};

}  // namespace plan
}  // namespace v0
}  // namespace reef
