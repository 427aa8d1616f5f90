#pragma once

#include <cstdint>
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

/// The assignment of micro-batch indices to a round's members, a function of the log.
///
///     order   the indices below the highest committed one that are neither committed nor quarantined, then all above
///     member i of n takes elements i, i + n, i + 2n, ... of the order
///
/// The members are those with whom the round began, so that a peer which stays keeps the micro-batches that it took.
class Dealing {
public:
  Dealing() = default;
  Dealing(std::vector<PeerId> members, std::vector<std::int64_t> holes, std::int64_t next)
      : members_(std::move(members)), holes_(std::move(holes)), next_(next) {}

  [[nodiscard]] const std::vector<PeerId>& members() const& { return members_; }
  [[nodiscard]] std::vector<PeerId> members() const&& { return members_; }

  /// Returns the index of the k-th micro-batch, from 0, that `peer` computes in the round; nothing if the peer has no
  /// part in it.
  [[nodiscard]] std::optional<std::int64_t> index_of(const PeerId& peer, std::int64_t k) const;
  /// Returns the peer that computes a micro-batch index; null if nobody does in this round: the index is committed or
  /// quarantined.
  [[nodiscard]] const PeerId* taker_of(std::int64_t index) const&;
  void taker_of(std::int64_t index) const&& = delete;

  friend bool operator==(const Dealing&, const Dealing&) = default;

private:
  std::vector<PeerId> members_{};
  std::vector<std::int64_t> holes_{};  // ascending, all below next_
  std::int64_t next_ = 0;
};

/// The account of a job's micro-batches: each index is committed in one round by one peer, open, or quarantined (left
/// out).
///
/// | law  | an index is committed at most once; committed, quarantined and holes add up to all below end() |
/// | cost | memory by rounds and contributors, not by indices                                              |
///
/// \code
/// // given: const std::vector<swarm::Share>& shares
/// swarm::Ledger ledger;
/// const std::string why = ledger.refusal(shares);  // empty: the shares can be committed
/// if (why.empty()) ledger.commit(0, shares);
/// \endcode
class Ledger {
public:
  /// A committed round, with the micro-batches of each contributor.
  struct Round {
    std::int64_t round = 0;
    std::vector<Share> shares{};
    bool applied = true;  ///< false: the round changed no weight, and its indices are quarantined (left out of the job)

    [[nodiscard]] std::vector<PeerId> contributors() const;
    /// Returns the number of micro-batches of all contributors.
    [[nodiscard]] std::int64_t micro_batches() const;

    friend bool operator==(const Round&, const Round&) = default;
  };

  /// The state of one micro-batch index.
  struct Place {
    enum class Kind : std::uint8_t { committed, open, quarantined };
    Kind kind = Kind::open;
    std::int64_t round = -1;  ///< round in which the index is committed; -1: none
    PeerId peer{};            ///< peer that computed the micro-batch
  };

  /// Returns why these shares of a round cannot be committed: an index twice, committed, quarantined, or a malformed
  /// list; empty text if they can.
  [[nodiscard]] std::string refusal(std::span<const Share> shares) const;
  /// Commits the shares of a round; only where refusal() is empty. If `applied` is false, since the sum is not finite,
  /// the indices are quarantined (left out of the job) instead.
  void commit(std::int64_t round, std::vector<Share> shares, bool applied = true);
  /// Makes the micro-batches of round `rounds` and of all later ones open again.
  void roll_back(std::int64_t rounds);
  /// Takes indices that are not committed out of the job. Returns why that is refused, and then changes nothing; empty
  /// if done.
  std::string quarantine(std::span<const IndexRun> runs);

  /// Returns the assignment of micro-batches for a round that begins now among `members`, ascending.
  [[nodiscard]] Dealing deal(std::vector<PeerId> members) const;

  /// Returns one more than the highest micro-batch index that is committed or quarantined.
  [[nodiscard]] std::int64_t end() const;
  [[nodiscard]] std::vector<std::int64_t> holes() const;
  [[nodiscard]] Place place_of(std::int64_t index) const;
  [[nodiscard]] const IndexSet& committed() const& { return committed_; }
  [[nodiscard]] IndexSet committed() const&& { return committed_; }
  [[nodiscard]] const IndexSet& quarantined() const& { return quarantined_; }
  [[nodiscard]] IndexSet quarantined() const&& { return quarantined_; }
  [[nodiscard]] const std::vector<Round>& rounds() const& { return rounds_; }
  [[nodiscard]] std::vector<Round> rounds() const&& { return rounds_; }

  friend bool operator==(const Ledger&, const Ledger&) = default;

private:
  IndexSet committed_;
  IndexSet quarantined_;
  std::vector<Round> rounds_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/ledger.ipp>
#endif
