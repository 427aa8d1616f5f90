#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/index_runs.hpp>
#include <reef/swarm/core/peer_id.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The order in which a round's members take micro-batches, a function of the log.
///
///     order   the open indices below Ledger::end(), then all above; those that failed once come first
///     member i of n takes elements i, i + n, i + 2n, ... of the order
///
/// An index that failed once has a place of another member than the one that it failed with, if there is another one.
///
/// The members are those of the view in which the round began, so that whoever stays keeps what it took.
class Dealing {
public:
  Dealing() = default;
  /// Deals `holes`, ascending, and all from `next` on to `members`. `failed`: of the holes, those that have failed, and
  /// with which peer.
  Dealing(std::vector<PeerId> members, std::vector<std::int64_t> holes, std::int64_t next,
          const std::map<std::int64_t, PeerId>& failed = {});

  [[nodiscard]] const std::vector<PeerId>& members() const& { return members_; }
  [[nodiscard]] std::vector<PeerId> members() const&& { return members_; }

  /// Returns the element of the order that `peer` takes as its k-th, from 0; nothing if the peer is not dealt to.
  [[nodiscard]] std::optional<std::int64_t> index_of(const PeerId& peer, std::int64_t k) const;
  /// Returns the k for which index_of(peer, k) is this index; nothing where taker_of() is null.
  [[nodiscard]] std::optional<std::int64_t> turn_of(std::int64_t index) const;
  /// Returns the peer that takes an index; null if nobody does in this round: it is committed or quarantined.
  [[nodiscard]] const PeerId* taker_of(std::int64_t index) const&;
  void taker_of(std::int64_t index) const&& = delete;

  friend bool operator==(const Dealing&, const Dealing&) = default;

private:
  /// Returns the place of an index in the order.
  [[nodiscard]] std::optional<std::int64_t> place_of(std::int64_t index) const;

  std::vector<PeerId> members_{};
  std::vector<std::int64_t> first_{};  // those that failed, and what lies between them, in order
  std::vector<std::int64_t> holes_{};  // after these, ascending
  std::int64_t next_ = 0;              // after these
};

/// The account of micro-batches: each index is committed in one round by one peer, open, or quarantined.
///
/// | law        | an index is committed at most once; committed, quarantined and holes add up to all below end()  |
/// | not finite | an index of a sum that is not finite has failed: once, and it is dealt to another peer; twice,  |
/// |            | and it is quarantined, whichever other indices were in these sums                               |
/// | cost       | memory by rounds and contributors, not by indices                                               |
///
/// \code
/// // given: const std::vector<swarm::Share>& shares
/// swarm::Ledger ledger;
/// const std::string why = ledger.refusal(shares);  // empty: the shares can be committed
/// if (why.empty()) ledger.commit(0, shares);
/// \endcode
class Ledger {
public:
  /// A committed round.
  struct Round {
    std::int64_t round = 0;
    std::vector<Share> shares{};
    bool applied = true;  ///< false: the round was skipped, and its indices have failed

    [[nodiscard]] std::vector<PeerId> contributors() const;
    /// Returns the number of micro-batches of all contributors whose sums are finite.
    [[nodiscard]] std::int64_t micro_batches() const;

    friend bool operator==(const Round&, const Round&) = default;
  };

  /// The place of one index.
  struct Place {
    enum class Kind : std::uint8_t { committed, open, quarantined };
    Kind kind = Kind::open;
    std::int64_t round = -1;  ///< in which it is committed
    PeerId peer{};            ///< by whom
  };

  /// Returns why these shares cannot be committed: an index twice, committed, quarantined or of impossible runs; empty
  /// text if they can.
  [[nodiscard]] std::string refusal(std::span<const Share> shares) const;
  /// Commits the shares of a round; only where refusal() is empty. The indices of a share that is not finite, and all
  /// of a round that is not `applied`, have failed instead.
  void commit(std::int64_t round, std::vector<Share> shares, bool applied = true);
  /// Opens again all indices of rounds from `rounds` on, with the failures that they had before.
  void roll_back(std::int64_t rounds);
  /// Takes indices that are not committed out of the job. Returns why not, and then changes nothing; empty if done.
  std::string quarantine(std::span<const IndexRun> runs);

  /// Returns the dealing of a round that begins now among `members`, ascending.
  [[nodiscard]] Dealing deal(std::vector<PeerId> members) const;

  /// Returns one more than the highest index that is committed, quarantined or has failed.
  [[nodiscard]] std::int64_t end() const;
  /// Returns the indices below end() that are neither committed nor quarantined.
  [[nodiscard]] std::vector<std::int64_t> holes() const;
  /// Returns the holes that have failed once, and with which peer.
  [[nodiscard]] const std::map<std::int64_t, PeerId>& failed() const& { return failed_; }
  [[nodiscard]] std::map<std::int64_t, PeerId> failed() const&& { return failed_; }
  [[nodiscard]] Place place_of(std::int64_t index) const;
  [[nodiscard]] const IndexSet& committed() const& { return committed_; }
  [[nodiscard]] IndexSet committed() const&& { return committed_; }
  [[nodiscard]] const IndexSet& quarantined() const& { return quarantined_; }
  [[nodiscard]] IndexSet quarantined() const&& { return quarantined_; }
  [[nodiscard]] const std::vector<Round>& rounds() const& { return rounds_; }
  [[nodiscard]] std::vector<Round> rounds() const&& { return rounds_; }

  friend bool operator==(const Ledger&, const Ledger&) = default;

private:
  /// Notes what has become of the indices of a round.
  void account(const Round& round);

  IndexSet committed_;
  IndexSet quarantined_;
  IndexSet withdrawn_;  // of the quarantined ones, those of quarantine()
  std::map<std::int64_t, PeerId> failed_;
  std::vector<Round> rounds_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/ledger.ipp>
#endif
