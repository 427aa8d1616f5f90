#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/swarm/core/job_state.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Returns the lines that AveragingOptions::report is given of a state of the job. `rounds`, `epoch`: of the state
/// before.
inline std::vector<std::string> report_lines(const core::JobState& state, std::int64_t rounds, std::int64_t epoch) {
  std::vector<std::string> lines;
  if (state.epoch != epoch) {
    std::string members;
    for (const Member& member : state.members) members += concat(members.empty() ? "" : ", ", member.id.name);
    lines.push_back(concat("view ", state.epoch, ": ", members));
  }
  if (state.round() > rounds && rounds >= 0) {
    const Ledger::Round& round = state.ledger.rounds().back();
    lines.push_back(concat("round ", round.round, ": ", round.micro_batches(), " micro-batches of ",
                           round.shares.size(), round.applied ? "" : ", skipped: not finite or empty"));
  }
  return lines;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
