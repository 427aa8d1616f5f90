#pragma once

#include <vector>

#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/log/decision_log.hpp>

namespace reef_examples {

/// What a job's log says.
struct LogText {
  reef::swarm::core::JobState state;
  std::vector<reef::swarm::ViewEntry> views;
};

/// Reads a log from its begin. Throws Error where it cannot be asked.
LogText read_log(reef::swarm::DecisionLog& log);

}  // namespace reef_examples
