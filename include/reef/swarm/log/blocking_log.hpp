#pragma once

#include <string>
#include <vector>

#include <reef/swarm/log/decision_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// A replicated log's asynchronous calls as functions that wait for their answer, for tools and tests.
///
/// | blocks | each call, until the log answers; not to be called in a callback of that log, nor on SimulatedLog, |
/// |        | whose clock stands meanwhile                                                                       |
/// | errors | those of DecisionLog; Error from read where the log cannot be asked                                |
///
/// \code
/// // given: swarm::DecisionLog& log
/// swarm::BlockingLog blocking(log);
/// const swarm::Appended answer = blocking.append(0, R"({"kind":"genesis"})");
/// const std::vector<std::string> all = blocking.read(0);  // entry i at index i
/// \endcode
class BlockingLog {
public:
  explicit BlockingLog(DecisionLog& log) : log_(log) {}

  /// Appends `entry` at index `at`, and returns the log's answer.
  Appended append(LogIndex at, std::string entry);

  /// Returns all entries of the log from index `from` on.
  [[nodiscard]] std::vector<std::string> read(LogIndex from);

  /// Returns the entries of the log from index `from` on, at most log_page_bytes and one entry more.
  [[nodiscard]] LogPage page(LogIndex from);

private:
  DecisionLog& log_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/blocking_log.ipp>
#endif
