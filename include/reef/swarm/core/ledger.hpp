#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/index_runs.hpp>
#include <reef/swarm/core/peer_id.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The assignment of micro-batch indices to a round's members, a function of the log.
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

  /// Returns the index of the k-th micro-batch, from 0, that `peer` computes in the round; nothing if the peer has no
  /// part in it.
  [[nodiscard]] std::optional<std::int64_t> index_of(const PeerId& peer, std::int64_t k) const;
  /// Returns the k for which index_of(peer, k) is this index; nothing where taker_of() is null.
  [[nodiscard]] std::optional<std::int64_t> turn_of(std::int64_t index) const;
  /// Returns the peer that takes an index; null if nobody does in this round: it is committed or quarantined.
  [[nodiscard]] const PeerId* taker_of(std::int64_t index) const&;
  void taker_of(std::int64_t index) const&& = delete;

  /// The order, in three parts: what comes first, the holes after these, ascending, and all from `next` on.
  struct Order {
    std::vector<std::int64_t> first{};  ///< indices that failed, and what lies between them
    std::vector<std::int64_t> holes{};
    std::int64_t next = 0;

    friend bool operator==(const Order&, const Order&) = default;
  };
  /// Deals an order that order() has given.
  Dealing(std::vector<PeerId> members, Order order) : members_(std::move(members)), order_(std::move(order)) {}
  [[nodiscard]] const Order& order() const& { return order_; }
  void order() const&& = delete;

  friend bool operator==(const Dealing&, const Dealing&) = default;

private:
  /// Returns the place of an index in the order.
  [[nodiscard]] std::optional<std::int64_t> place_of(std::int64_t index) const;

  std::vector<PeerId> members_{};
  Order order_{};
};

/// The account of a job's micro-batches: each index is committed in one round by one peer, open, or quarantined (left
/// out).
///
/// | law        | an index is committed at most once; committed, quarantined and holes add up to all below end()  |
/// | not finite | an index of a sum that is not finite has failed: once, and it is dealt to another peer; twice,  |
/// |            | and it is quarantined, whichever other indices were in these sums                               |
/// | settled    | rounds that nobody goes back behind; their records may be forgotten, what they account for stays |
/// | cost       | memory by rounds that are not forgotten, and their contributors, not by indices                 |
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
    bool applied = true;  ///< false: the round was skipped, and its indices have failed

    [[nodiscard]] std::vector<PeerId> contributors() const;
    /// Returns the number of micro-batches of all contributors whose sums are finite.
    [[nodiscard]] std::int64_t micro_batches() const;

    friend bool operator==(const Round&, const Round&) = default;
  };

  /// What has become of the indices of rounds.
  struct Account {
    IndexSet committed{};
    IndexSet quarantined{};                   ///< those that have failed twice
    std::map<std::int64_t, PeerId> failed{};  ///< those that have failed once, and with which peer

    friend bool operator==(const Account&, const Account&) = default;
  };

  /// What a peer has committed in rounds whose records are forgotten.
  struct Tally {
    std::int64_t rounds = 0;
    std::int64_t micro_batches = 0;

    friend bool operator==(const Tally&, const Tally&) = default;
  };

  /// The state of one micro-batch index.
  struct Place {
    enum class Kind : std::uint8_t { committed, open, quarantined };
    Kind kind = Kind::open;
    std::int64_t round = -1;  ///< round in which the index is committed; -1: none, or one that is forgotten
    PeerId peer{};            ///< peer that computed the micro-batch
  };

  Ledger() = default;
  /// Makes the ledger of which `rounds` rounds are settled and forgotten, with this account of them; `withdrawn` are
  /// the indices that quarantine() has taken out of the job, and `later` the rounds after the settled ones.
  Ledger(std::int64_t rounds, Account settled, IndexSet withdrawn, std::vector<Round> later);

  /// Returns why these shares of a round cannot be committed: an index twice, committed, quarantined, or a malformed
  /// list; empty text if they can.
  [[nodiscard]] std::string refusal(std::span<const Share> shares) const;
  /// Commits the shares of a round; only where refusal() is empty. The indices of a share that is not finite, and all
  /// of a round that is not `applied`, have failed instead.
  void commit(std::int64_t round, std::vector<Share> shares, bool applied = true);
  /// Makes the first `rounds` rounds final: nothing is rolled back behind them.
  void settle(std::int64_t rounds);
  /// Returns the account of the first `rounds` rounds, which are no fewer than the settled ones.
  [[nodiscard]] Account account_of(std::int64_t rounds) const;
  /// Forgets the records of rounds before `rounds`, if these are settled.
  void forget(std::int64_t rounds);

  /// Opens again all indices of rounds from `rounds` on, with the failures that they had before. These are not settled.
  void roll_back(std::int64_t rounds);
  /// Takes indices that are not committed out of the job. Returns why that is refused, and then changes nothing; empty
  /// if done.
  std::string quarantine(std::span<const IndexRun> runs);

  /// Returns the assignment of micro-batches for a round that begins now among `members`, ascending.
  [[nodiscard]] Dealing deal(std::vector<PeerId> members) const;

  /// Returns one more than the highest index that is committed, quarantined or has failed.
  [[nodiscard]] std::int64_t end() const;
  /// Returns the indices below end() that are neither committed nor quarantined.
  [[nodiscard]] std::vector<std::int64_t> holes() const;
  /// Returns the holes that have failed once, and with which peer.
  [[nodiscard]] const std::map<std::int64_t, PeerId>& failed() const& { return now_.failed; }
  [[nodiscard]] std::map<std::int64_t, PeerId> failed() const&& { return now_.failed; }
  [[nodiscard]] Place place_of(std::int64_t index) const;
  [[nodiscard]] const IndexSet& committed() const& { return now_.committed; }
  [[nodiscard]] IndexSet committed() const&& { return now_.committed; }
  [[nodiscard]] const IndexSet& quarantined() const& { return now_.quarantined; }
  [[nodiscard]] IndexSet quarantined() const&& { return now_.quarantined; }
  /// Returns the indices that quarantine() has taken out of the job.
  [[nodiscard]] const IndexSet& withdrawn() const& { return withdrawn_; }
  void withdrawn() const&& = delete;
  /// Returns the number of rounds that are forgotten: the first ones.
  [[nodiscard]] std::int64_t forgotten() const { return forgotten_; }
  /// Returns what each peer has committed in the rounds that this ledger has forgotten.
  [[nodiscard]] const std::map<PeerId, Tally>& tallies() const& { return tallies_; }
  void tallies() const&& = delete;
  /// Returns the record of a round; null if the round is not committed, or forgotten.
  [[nodiscard]] const Round* round(std::int64_t number) const&;
  void round(std::int64_t number) const&& = delete;
  /// Returns the records of the committed rounds that are not forgotten, the last ones, ascending.
  [[nodiscard]] const std::vector<Round>& rounds() const& { return rounds_; }
  [[nodiscard]] std::vector<Round> rounds() const&& { return rounds_; }

  friend bool operator==(const Ledger&, const Ledger&) = default;

private:
  /// Adds to an account what has become of the indices of a round.
  static void add(Account& account, const Round& round);
  /// Makes the account of now from that of the settled rounds.
  void count_again();

  Account now_;         // with those of quarantine()
  IndexSet withdrawn_;  // by quarantine()
  std::int64_t settled_rounds_ = 0;
  Account settled_;     // of these rounds, without those of quarantine()
  std::int64_t forgotten_ = 0;
  std::map<PeerId, Tally> tallies_;
  std::vector<Round> rounds_;  // from `forgotten_` on
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/ledger.ipp>
#endif
