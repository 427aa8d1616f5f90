#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/digest.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/message.hpp>
#include <reef/swarm/core/peer_id.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The functions of a job on its encoded gradients. Each is pure: equal arguments give equal bytes on every peer.
struct RoundFunctions {
  DigestFunction digest{};
  /// Returns the encoded sum of the contributors' encoded parts of a piece, added in the order given; zeros if there
  /// are none.
  std::function<Bulk(std::int64_t piece, std::span<const Bulk> parts)> fold{};
  /// Returns true if these bytes are a valid part of this piece: decodable, of its length, and finite.
  std::function<bool(std::int64_t piece, const Bulk& part)> accepts{};
  /// Returns the decision about a round's sum (finite, norm, clipping factor) from the results of all pieces; `weight`
  /// and `loss` are totals over the contributors.
  std::function<RoundVerdict(std::span<const Bulk> results, double weight, double loss)> judge{};
};

/// A peer's contribution to a round, with all of its encoded data.
struct Contribution {
  std::vector<std::int64_t> indices{};  ///< the micro-batches that it contains, ascending
  double weight = 0;                    ///< the sum of their loss weights; 0: no parts
  double loss = 0;                      ///< the sum of weight * loss
  std::vector<Bulk> parts{};            ///< by piece; empty if weight is 0
  bool finite = true;                   ///< false: weight is 0, since the sum or the loss is not finite
};

/// Returns a contribution as it can be offered: without weight and parts, and not `finite`, if a part is not accepted,
/// or weight or loss are not finite.
Contribution checked(Contribution contribution, const RoundFunctions& functions);

/// Returns the digest of a list of contributors, by which parts of a result are told from those of other lists.
Digest digest_of(std::span<const PeerId> contributors, const DigestFunction& function);

/// The messages of the round in progress that one member has. Its own contribution is kept whole until the round is
/// committed, since a member that becomes the reducer of a piece needs its own part of that piece too.
class Round {
public:
  Round() = default;
  Round(std::int64_t round, std::int64_t attempt, std::int64_t pieces)
      : round_(round), attempt_(attempt), pieces_(pieces) {}

  [[nodiscard]] std::int64_t round() const { return round_; }
  [[nodiscard]] std::int64_t attempt() const { return attempt_; }
  [[nodiscard]] bool closed() const { return closed_; }
  void close() { closed_ = true; }

  /// Sets this peer's contribution, once in a round.
  void contribute(const PeerId& self, Contribution contribution, const DigestFunction& digest);
  [[nodiscard]] bool contributed() const { return contributed_; }
  [[nodiscard]] const std::vector<Bulk>& own_parts() const& { return own_parts_; }
  [[nodiscard]] std::vector<Bulk> own_parts() const&& { return own_parts_; }

  /// Notes the announcement of a contribution: the first one of each peer counts. Returns true if it was new.
  bool offered(const PeerId& from, const Offer& offer);
  [[nodiscard]] const Offer* offer_of(const PeerId& peer) const&;
  void offer_of(const PeerId& peer) const&& = delete;
  /// Notes a part of a contribution: the first one of each (piece, peer) counts. Returns true if it was new.
  bool received(const PeerId& from, const Part& part);
  [[nodiscard]] bool has_part(std::int64_t piece, const PeerId& from) const { return parts_.contains({piece, from}); }
  /// Notes the sum of a piece over the contributors whose list has this digest. Computes the digest of `bytes`, once.
  void reduced(const Digest& targets, std::int64_t piece, Bulk bytes, const DigestFunction& digest);

  /// Drops the results that are sums over these contributors, since their digest is not that in the log.
  void forget_results(const Digest& targets) { results_.erase(targets); }

  /// Returns how many encoded pieces this object keeps: of the own contribution, those of others, and results.
  [[nodiscard]] std::size_t encoded_pieces() const;
  /// Drops results that are sums over other contributors.
  void keep_results_of(const Digest& targets);
  /// Drops parts of others than `targets`, and of pieces that `self` does not sum; the own ones stay.
  void keep_parts_of(std::span<const PeerId> targets, const PeerId& self, std::span<const PeerId> reducers);
  /// Drops all but the results over these contributors: the round is committed.
  void commit(const Digest& targets);
  /// Drops all results. Those that are needed after all are to be asked for.
  void forget_results() { results_.clear(); }

  /// Returns true if all parts of contributor `peer` that `self` is to sum have come.
  [[nodiscard]] bool has_whole(const PeerId& peer, const PeerId& self, std::span<const PeerId> reducers) const;
  /// Returns the parts of a piece from those of `targets` whose weight is not 0, in ascending order of contributors;
  /// nothing if an announcement or a part has not come.
  [[nodiscard]] std::optional<std::vector<Bulk>> parts_of(std::int64_t piece, std::span<const PeerId> targets) const;
  [[nodiscard]] bool has_result(const Digest& targets, std::int64_t piece) const;
  [[nodiscard]] Bulk result(const Digest& targets, std::int64_t piece) const;
  /// Returns the results of all pieces for the contributors of this digest; nothing if one has not come.
  [[nodiscard]] std::optional<std::vector<Bulk>> results(const Digest& targets) const;
  /// Returns the digest of the results of all pieces for the contributors of this digest; all zeros if one has not
  /// come.
  [[nodiscard]] Digest root(const Digest& targets, const DigestFunction& digest) const;
  [[nodiscard]] std::vector<std::int64_t> missing_results(const Digest& targets) const;

  friend bool operator==(const Round&, const Round&) = default;

private:
  std::int64_t round_ = 0;
  std::int64_t attempt_ = 0;
  std::int64_t pieces_ = 0;
  bool closed_ = false;
  bool contributed_ = false;
  std::vector<Bulk> own_parts_;
  std::map<PeerId, Offer> offers_;
  std::map<std::pair<std::int64_t, PeerId>, Bulk> parts_;
  struct Reduced {
    Bulk bytes{};
    Digest digest{};

    friend bool operator==(const Reduced&, const Reduced&) = default;
  };
  std::map<Digest, std::map<std::int64_t, Reduced>> results_;
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/round.ipp>
#endif
