#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/ledger.hpp>
#include <reef/swarm/core/pieces.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The state of a job of replicated training (members, round, micro-batches), computed by `apply` from the entries of
/// its log, one by one. Readers of the same entries have the same state.
struct JobState {
  /// A committed round, without the micro-batches of each contributor, which are in the ledger.
  struct Decided {
    std::int64_t epoch = 0;
    Digest root{};
    RoundVerdict verdict{};

    friend bool operator==(const Decided&, const Decided&) = default;
  };

  std::int64_t entries = 0;  ///< number of log entries read, and so the index of the next one
  std::optional<Genesis> genesis{};
  std::int64_t epoch = 0;              ///< number of the last membership; 0: there was none
  /// Members by the last view entry, ascending; empty before the first one and after a rollback.
  std::vector<Member> members{};
  std::vector<PeerId> contributors{};  ///< contributors by the last Exclude of this epoch and round; empty: all members
  /// Reducers, by piece (range of the parameter vector): the member that sums the piece.
  std::vector<PeerId> reducers{};
  Dealing dealing{};         ///< assignment of micro-batches in the round that is not committed yet
  std::int64_t attempt = 0;  ///< the epoch in which that assignment was made: contributions of another attempt are void
  Ledger ledger{};
  std::int64_t forgotten = 0;          ///< number of the first rounds whose records are forgotten
  std::int64_t forgotten_applied = 0;  ///< of these, those that have changed weights
  std::vector<Decided> rounds{};       ///< committed rounds, from round `forgotten` on
  std::optional<LogCheckpoint> checkpoint{};  ///< the last one
  std::int64_t lineage = 0;       ///< number of returns to an earlier state (rollbacks)
  std::int64_t ignored = 0;       ///< number of entries that broke a rule and changed nothing else

  /// Returns the number of the round that is not committed yet.
  [[nodiscard]] std::int64_t round() const { return forgotten + static_cast<std::int64_t>(rounds.size()); }
  /// Returns what was decided on a committed round; null if that is forgotten.
  [[nodiscard]] const Decided* decided(std::int64_t number) const&;
  void decided(std::int64_t number) const&& = delete;
  /// Forgets the records of rounds before `count`, if these are before the last checkpoint.
  void forget(std::int64_t count);
  /// Returns how many of the first `count` committed rounds, which are no fewer than those forgotten, have changed
  /// weights.
  [[nodiscard]] std::int64_t applied_of(std::int64_t count) const;
  /// Returns the member of that identity; null if there is none.
  [[nodiscard]] const Member* member(const PeerId& id) const&;
  void member(const PeerId& id) const&& = delete;
  [[nodiscard]] std::vector<PeerId> member_ids() const;
  /// Returns the peers whose contributions make up the round that is not committed yet.
  [[nodiscard]] std::vector<PeerId> targets() const { return contributors.empty() ? member_ids() : contributors; }

  friend bool operator==(const JobState&, const JobState&) = default;
};

/// Returns the least number of members that must hold a round's result before the round is committed, of n members:
/// min(n, max(2, majority)).
std::int64_t least_holders(std::int64_t members);

/// Returns the most micro-batches that one member takes in a round: it closes the round itself when it has computed the
/// global batch alone, with a few under way.
constexpr std::int64_t most_of_member(const Genesis& genesis) { return 2 * genesis.global_batch + 16; }

/// Applies an entry to the state of a job. Pure and total: an entry that breaks a rule changes nothing but the counts
/// of entries and of ignored ones. Returns the broken rule as text, empty if there is none.
///
/// | genesis      | the first entry                                                                             |
/// | view         | epoch + 1; other members than before, ascending, each name once; its author is one of them, |
/// |              | or leaves and changes nothing else                                                          |
/// | exclude      | of this epoch and round, by a member; fewer contributors than before, at least one          |
/// | commit       | of this epoch and round, by a member; shares of exactly the contributors; at least          |
/// |              | least_holders() of the members hold it, the others are its stragglers; each index dealt to  |
/// |              | its contributor, among the first most_of_member() of it, and open; weight finite, 0 for a   |
/// |              | share that is not finite, and not 0 in total                                                |
/// | rollback     | to a round that is committed, and not behind the last checkpoint; after it there is no view |
/// | quarantine   | by a member; of indices that are not committed, and that a member can take in this round    |
/// | checkpoint   | by a member; after as many rounds as Genesis::checkpoint says, or a multiple of it, that    |
/// |              | are committed and more than those of the one before; least_holders() of the members hold    |
/// |              | it; its summary, if there is one, is that of this state                                     |
///
/// \code
/// // given: const swarm::Entry& entry
/// swarm::core::JobState state;
/// const std::string why = swarm::core::apply(state, entry);
/// \endcode
std::string apply(JobState& state, const Entry& entry);

/// Returns why a peer with these facts of its job cannot take part in the job of a log: another job, model, data,
/// processor class or layout; an empty text if it can.
std::string refusal_of(const JobState& state, const Genesis& own);

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/job_state.ipp>
#endif
