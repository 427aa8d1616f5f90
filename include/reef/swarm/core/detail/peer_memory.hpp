#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/event.hpp>
#include <reef/swarm/core/failure_detector.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/core/peer_options.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// Returns true for a message with an encoded piece of a round.
inline bool has_piece(const Message& message) {
  return std::holds_alternative<Part>(message) || std::holds_alternative<Result>(message);
}

/// Everything that a peer remembers from event to event.
struct PeerMemory {
  explicit PeerMemory(PeerOptions given)
      : options(std::move(given)), detector(options.deadlines), nonce(options.seed) {}

  [[nodiscard]] const PeerId& id() const { return options.self.id; }
  [[nodiscard]] bool is_member() const { return state.member(id()) != nullptr; }
  [[nodiscard]] Phase phase() const {
    if (!is_member() || applied != state.round()) return Phase::absent;
    if (!round.contributed()) return Phase::accumulate;
    return ready_at >= 0 ? Phase::ready : Phase::exchange;
  }

  /// Returns the number of encoded pieces that the peer keeps of all rounds.
  [[nodiscard]] std::size_t encoded_pieces() const {
    std::size_t pieces = round.encoded_pieces();
    for (const auto& [number, committed] : behind) pieces += committed.encoded_pieces();
    for (const auto& [number, committed] : kept) pieces += committed.results.size();
    for (const auto& [from, message] : early) pieces += has_piece(message) ? 1 : 0;
    return pieces;
  }

  /// A committed round whose results may still be asked for.
  struct Kept {
    Digest targets{};
    std::vector<Bulk> results{};
  };

  PeerOptions options;
  JobState state{};
  FailureDetector detector;
  DurationWindow exchanges{16};  // seconds from closing to having all results, of the last rounds
  std::map<PeerId, Beat> beats{};
  std::map<PeerId, PeerPresence> presences{};
  std::optional<PeerPresence> announced{};
  Round round{};
  std::set<std::pair<std::int64_t, PeerId>> sent{};  // parts by reducer
  std::set<PeerId> told{};                           // who has the offer
  std::vector<std::pair<PeerId, Message>> early{};   // of the round after this one
  std::map<std::int64_t, Kept> kept{};               // by round
  std::map<std::int64_t, Round> behind{};            // committed rounds that the trainer was not given yet
  std::map<std::int64_t, std::map<std::int64_t, Bulk>> joining{};  // state pieces by rounds
  std::optional<std::int64_t> log_end{};                           // as it was when the peer asked
  std::int64_t applied = 0;
  std::int64_t applying = 0;  // rounds whose results the trainer was given
  std::int64_t taken = 0;     // micro-batches of this round that were handed out
  std::int64_t computed = 0;  // of these, those that are computed
  std::int64_t steps = 0;
  std::uint64_t nonce = 0;
  std::optional<std::int64_t> pending{};  // index of an append whose place in the log is not read yet
  Seconds quiet_until = 0;                // nothing is appended before: the last own entry broke a rule
  Seconds pending_until = 0;              // when it is tried again, if it was not won
  std::map<std::int64_t, Digest> roots{};  // of the own state by rounds, from the last checkpoint on
  std::map<std::int64_t, Digest> found{};  // of states that an earlier process has kept
  std::int64_t own_kept = 0;               // rounds of the newest state that is kept, whose digest is in `roots`
  Seconds checkpoint_wanted_at = -1;       // since when enough members hold it; below 0: they do not
  bool differs = false;                    // the own state is another one than that of a checkpoint
  std::optional<std::string> leaving{};
  Seconds leaving_since = 0;
  bool gone = false;
  bool close_asked = false;
  Beat beat{};  // the last one that was sent
  Seconds last_beat = -1e9;
  Seconds last_want = 0;
  Seconds last_results_want = 0;  // of a round that is committed
  std::int64_t results_wanted = -1;  // the last such round
  std::size_t results_wants = 0;
  Seconds closed_at = -1;  // of this round; below 0: not yet
  Seconds ready_at = -1;
  Seconds round_began = 0;
  Seconds view_read_at = -1e9;  // when the last view was read
  Seconds view_wanted_at = -1;  // since when the view should be another one; below 0: it should not
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
