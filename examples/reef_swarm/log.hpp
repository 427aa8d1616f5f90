#pragma once

#include <vector>

#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/log/remote_log.hpp>

#include "options.hpp"

namespace reef_examples {

/// What a job's log says.
struct LogText {
  reef::swarm::core::JobState state;
  std::vector<reef::swarm::ViewEntry> views;
};

/// Reads a log from its begin. Throws Error where it cannot be asked.
LogText read_log(reef::swarm::DecisionLog& log);

/// A job's log where its options say, with its presences: entries are chained, and with --keys signed.
class JobLog {
public:
  explicit JobLog(const LogPlace& place);

  [[nodiscard]] reef::swarm::DecisionLog& entries() { return chained_; }
  [[nodiscard]] reef::swarm::Presence& presence() { return remote_; }

private:
  reef::swarm::RemoteLog remote_;
  reef::swarm::ChainedLog chained_;
};

}  // namespace reef_examples
