#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/simulated_job.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/event.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// The states that peers of a simulation have kept, which outlive their processes.
class SimulatedDisks {
public:
  /// Returns the number in the plan of a peer, whose name is p and that number.
  static int number_of(const PeerId& peer) { return std::stoi(peer.name.substr(1)); }

  /// Keeps the state of a peer after so many rounds.
  event::StateKept keep(int peer, std::int64_t rounds, const std::vector<std::uint64_t>& weights) {
    states_[peer][rounds] = weights;
    return {rounds, digest_of_state(weights), true};
  }
  [[nodiscard]] bool has(int peer, std::int64_t rounds) const {
    const auto kept = states_.find(peer);
    return kept != states_.end() && kept->second.contains(rounds);
  }
  [[nodiscard]] const std::vector<std::uint64_t>& state(int peer, std::int64_t rounds) const& {
    return states_.at(peer).at(rounds);
  }
  void state(int peer, std::int64_t rounds) const&& = delete;
  /// Notes that a process of this peer has ended, and that another one starts soon.
  void wait_for(int peer) { coming_.insert(peer); }
  /// Returns true if a peer that has kept the state after so many rounds starts again soon.
  [[nodiscard]] bool comes(std::int64_t rounds) const {
    return std::any_of(coming_.begin(), coming_.end(), [&](int peer) { return has(peer, rounds); });
  }
  /// Returns what a process of this peer that starts finds.
  [[nodiscard]] std::vector<event::StateFound> found_by(int peer) {
    coming_.erase(peer);
    std::vector<event::StateFound> all;
    for (const auto& [rounds, weights] : states_[peer]) all.push_back({rounds, digest_of_state(weights)});
    return all;
  }

  /// Returns the law that a checkpoint of the log breaks; empty if none. `weights`: those that the ledger gives.
  [[nodiscard]] std::string broken_by(const LogCheckpoint& checkpoint,
                                      const std::vector<std::uint64_t>& weights) const {
    if (checkpoint.root != digest_of_state(weights))
      return concat("checkpoint: another state than the ledger's after ", checkpoint.rounds, " rounds");
    for (const PeerId& holder : checkpoint.holders) {
      if (!has(number_of(holder), checkpoint.rounds))
        return concat("checkpoint: ", to_text(holder), " has not kept the state after ", checkpoint.rounds, " rounds");
    }
    return {};
  }

private:
  std::map<int, std::map<std::int64_t, std::vector<std::uint64_t>>> states_;  // by peer and rounds
  std::set<int> coming_;
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
