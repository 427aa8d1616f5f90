#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/job_report.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE void note_members(std::vector<Stay>& stays, const JobState& state) {
  const LogTime time{state.epoch, state.round()};
  for (Stay& stay : stays) {
    if (!stay.went && state.member(stay.id) == nullptr) stay.went = time;
  }
  for (const Member& member : state.members) {
    const bool here = std::any_of(stays.begin(), stays.end(),
                                  [&](const Stay& stay) { return !stay.went && stay.id == member.id; });
    if (!here) stays.push_back({member.id, time, std::nullopt});
  }
}

REEF_INLINE JobReport report_of(const JobState& state, std::span<const Stay> stays) {
  JobReport report;
  if (state.genesis) report.job = state.genesis->job;
  report.rounds = state.round();
  report.epoch = state.epoch;
  report.members = static_cast<std::int64_t>(state.members.size());
  report.committed = state.ledger.committed().count();
  report.holes = static_cast<std::int64_t>(state.ledger.holes().size());
  report.quarantined = state.ledger.quarantined().count();
  report.rollbacks = state.lineage;
  std::map<PeerId, JobReport::Peer> peers;
  for (const Stay& stay : stays) peers[stay.id].stays.push_back(stay);
  for (const auto& [id, tally] : state.ledger.tallies()) {
    peers[id].rounds = tally.rounds;
    peers[id].micro_batches = tally.micro_batches;
  }
  report.skipped = state.forgotten - state.forgotten_applied;
  for (const Ledger::Round& round : state.ledger.rounds()) {
    if (!round.applied) {
      ++report.skipped;
      continue;
    }
    for (const Share& share : round.shares) {
      JobReport::Peer& peer = peers[share.id];
      if (!share.finite || share.indices.empty()) continue;
      ++peer.rounds;
      peer.micro_batches += count_of(share.indices);
    }
  }
  for (auto& [id, peer] : peers) {
    peer.id = id;
    report.peers.push_back(std::move(peer));
  }
  return report;
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
