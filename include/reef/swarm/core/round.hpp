#pragma once

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

/// The functions of a job on its data. Each is pure: equal arguments give equal bytes on every peer.
struct RoundFunctions {
  DigestFunction digest{};
  /// Returns the encoded sum of encoded parts of a piece, added in the order given; of none, a result of zeros.
  std::function<Bulk(std::int64_t piece, std::span<const Bulk> parts)> fold{};
  /// Returns true if these bytes are a part of this piece: decodable, of its length, and finite.
  std::function<bool(std::int64_t piece, const Bulk& part)> accepts{};
  /// Returns the verdict on the sum over the results of all pieces, whose contributors have this total weight and loss.
  std::function<RoundVerdict(std::span<const Bulk> results, double weight, double loss)> judge{};
};

/// A peer's contribution to a round, with all of its parts, encoded.
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

/// What one member has of the round in progress. Its own contribution stays whole until the round is committed, since a
/// member that becomes the reducer of a piece needs its own part of it as well.
class Round {
public:
  Round() = default;
  Round(std::int64_t round, std::int64_t attempt, std::int64_t pieces)
      : round_(round), attempt_(attempt), pieces_(pieces) {}

  [[nodiscard]] std::int64_t round() const { return round_; }
  [[nodiscard]] std::int64_t attempt() const { return attempt_; }
  [[nodiscard]] bool closed() const { return closed_; }
  void close() { closed_ = true; }

  /// Sets this peer's contribution: once in a round.
  void contribute(const PeerId& self, Contribution contribution, const DigestFunction& digest);
  [[nodiscard]] bool contributed() const { return contributed_; }
  [[nodiscard]] const std::vector<Bulk>& own_parts() const& { return own_parts_; }
  [[nodiscard]] std::vector<Bulk> own_parts() const&& { return own_parts_; }

  /// Notes an offer: the first of each peer counts. Returns true if it was new.
  bool offered(const PeerId& from, const Offer& offer);
  [[nodiscard]] const Offer* offer_of(const PeerId& peer) const&;
  void offer_of(const PeerId& peer) const&& = delete;
  /// Notes a part: the first of each (piece, peer) counts. Returns true if it was new.
  bool received(const PeerId& from, const Part& part);
  [[nodiscard]] bool has_part(std::int64_t piece, const PeerId& from) const { return parts_.contains({piece, from}); }
  /// Notes a result of a piece for the contributors of this digest. Its own digest is computed here, once.
  void reduced(const Digest& targets, std::int64_t piece, Bulk bytes, const DigestFunction& digest);

  /// Drops the results for these contributors: their root is not that of the log.
  void forget_results(const Digest& targets) { results_.erase(targets); }

  /// Returns true if all parts of `peer` have come that reducer `self` needs.
  [[nodiscard]] bool has_whole(const PeerId& peer, const PeerId& self, std::span<const PeerId> reducers) const;
  /// Returns the parts of a piece, of those of `targets` whose weight is not 0, in ascending order of contributors;
  /// nothing if an offer or a part has not come.
  [[nodiscard]] std::optional<std::vector<Bulk>> parts_of(std::int64_t piece, std::span<const PeerId> targets) const;
  [[nodiscard]] bool has_result(const Digest& targets, std::int64_t piece) const;
  [[nodiscard]] Bulk result(const Digest& targets, std::int64_t piece) const;
  /// Returns the results of all pieces; nothing if one has not come.
  [[nodiscard]] std::optional<std::vector<Bulk>> results(const Digest& targets) const;
  /// Returns the root of the results of all pieces; all zeros if one has not come.
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
