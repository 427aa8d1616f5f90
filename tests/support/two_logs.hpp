#pragma once

#include <chrono>
#include <memory>
#include <thread>

#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/presence.hpp>

namespace reef::test {

/// Two clients of one log that takes time to answer, as the law suites of logs and presences ask for them. A case that
/// has their server closes them first.
template <class Log>
struct TwoLogs {
  swarm::DecisionLog& log() { return *first; }
  swarm::DecisionLog& other() { return *second; }
  swarm::Presence& presence() { return *first; }
  swarm::Presence& other_presence() { return *second; }
  static void pass() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
  void close() {
    first.reset();
    second.reset();
  }

  std::unique_ptr<Log> first;
  std::unique_ptr<Log> second;
};

}  // namespace reef::test
