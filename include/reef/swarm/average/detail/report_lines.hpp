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

/// What of a job's state was reported.
struct ReportedState {
  explicit ReportedState(const core::JobState& state)
      : rounds(state.round()), epoch(state.epoch), checkpoint(state.checkpoint ? state.checkpoint->rounds : 0) {}

  std::int64_t rounds;
  std::int64_t epoch;
  std::int64_t checkpoint;  ///< rounds of the last one; 0: none
};

/// Returns the lines that AveragingOptions::report is given of a state of the job. `before`: of the state before.
inline std::vector<std::string> report_lines(const ReportedState& before, const core::JobState& state) {
  std::vector<std::string> lines;
  if (state.epoch != before.epoch) {
    std::string members;
    for (const Member& member : state.members) members += concat(members.empty() ? "" : ", ", member.id.name);
    lines.push_back(concat("view ", state.epoch, ": ", members));
  }
  if (state.round() > before.rounds && !state.ledger.rounds().empty()) {
    const Ledger::Round& round = state.ledger.rounds().back();
    lines.push_back(concat("round ", round.round, ": ", round.micro_batches(), " micro-batches of ",
                           round.shares.size(), round.applied ? "" : ", skipped: not finite or empty"));
  }
  if (state.checkpoint && state.checkpoint->rounds > before.checkpoint) {
    std::string holders;
    for (const PeerId& holder : state.checkpoint->holders) holders += concat(holders.empty() ? "" : ", ", holder.name);
    lines.push_back(concat("checkpoint ", state.checkpoint->rounds, ": kept by ", holders));
  }
  return lines;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
