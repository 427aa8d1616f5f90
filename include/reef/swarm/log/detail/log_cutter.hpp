#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/decision_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Drops the entries of a job's log before the last checkpoint but one. It reads the log as a ChainedLog, and takes
/// checkpoints that core::apply takes, with a summary. Memory: that of a core::JobState. The log outlives it.
class LogCutter {
public:
  explicit LogCutter(DecisionLog& log);

private:
  /// On the log's thread.
  void read(LogIndex at, std::string_view text);

  DecisionLog& log_;
  core::JobState state_{};
  bool lost_ = false;               // the log begins with no checkpoint
  std::optional<LogIndex> last_{};  // where the last checkpoint stands
  ChainedLog chained_;
  LogWatch watch_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/log_cutter.ipp>
#endif
