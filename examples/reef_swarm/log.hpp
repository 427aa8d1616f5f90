#pragma once

#include <memory>
#include <string>
#include <vector>

#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/presence.hpp>

#include "options.hpp"

namespace reef_examples {

/// What a job's log says.
struct LogText {
  reef::swarm::core::JobState state;
  std::vector<reef::swarm::ViewEntry> views;
};

/// Reads a log from its begin, or where that was dropped, from a checkpoint on. Throws Error where it cannot be asked.
LogText read_log(reef::swarm::DecisionLog& log);

/// A job's log where its options say: that of servers with its presences, or an archive. Entries are chained, and with
/// --keys signed.
class JobLog {
public:
  /// `archive`: a folder that gets what is read; empty: none.
  explicit JobLog(const LogPlace& place, const std::string& archive = {});

  [[nodiscard]] reef::swarm::ChainedLog& entries() { return chained_; }
  /// Returns the presences beside the log; only where that is no archive.
  [[nodiscard]] reef::swarm::Presence& presence() { return dynamic_cast<reef::swarm::Presence&>(*log_); }

private:
  std::unique_ptr<reef::swarm::DecisionLog> log_;
  reef::swarm::ChainedLog chained_;
};

}  // namespace reef_examples
