#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/core/peer_id.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// A place in a job's log: an epoch, and the round that was in progress when it began.
struct LogTime {
  std::int64_t epoch = 0;
  std::int64_t round = 0;

  friend bool operator==(const LogTime&, const LogTime&) = default;
};

/// The time for which a peer was a member without a break.
struct Stay {
  PeerId id{};
  LogTime came{};
  std::optional<LogTime> went{};  ///< nothing: it is a member

  friend bool operator==(const Stay&, const Stay&) = default;
};

/// Brings a list of stays, in the order in which they began, up to a later state of the job. To be called after each
/// view and rollback: members that come and go between two calls are not seen.
void note_members(std::vector<Stay>& stays, const JobState& state);

/// A summary of what a job's log says: of its peers, its rounds and its micro-batches.
///
/// | law  | micro-batches by peer add up to `committed`, and rounds of `peers` are those that changed weights; |
/// |      | of a state that began with a checkpoint (job_summary.hpp), those since                             |
/// | cost | of report_of: a pass over all shares of all rounds                                                |
///
/// \code
/// // given: const swarm::core::JobState& state, const std::vector<swarm::core::Stay>& stays
/// const swarm::core::JobReport report = swarm::core::report_of(state, stays);
/// const std::int64_t rounds = report.rounds;
/// \endcode
struct JobReport {
  /// A peer that is or was a member, or has contributed.
  struct Peer {
    PeerId id{};
    std::vector<Stay> stays{};
    std::int64_t rounds = 0;         ///< rounds that its contribution is in
    std::int64_t micro_batches = 0;  ///< its committed micro-batches

    friend bool operator==(const Peer&, const Peer&) = default;
  };

  std::string job{};
  std::int64_t rounds = 0;   ///< committed, the skipped ones included
  std::int64_t skipped = 0;  ///< of these, rounds that changed no weight
  std::int64_t epoch = 0;
  std::int64_t members = 0;
  std::int64_t committed = 0;  ///< micro-batches, as the next two
  std::int64_t holes = 0;
  std::int64_t quarantined = 0;
  std::int64_t rollbacks = 0;
  std::vector<Peer> peers{};  ///< ascending by id

  friend bool operator==(const JobReport&, const JobReport&) = default;
};

/// Returns the summary of a job's log.
JobReport report_of(const JobState& state, std::span<const Stay> stays);

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/job_report.ipp>
#endif
