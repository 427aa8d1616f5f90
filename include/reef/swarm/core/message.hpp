#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include <reef/swarm/core/digest.hpp>
#include <reef/swarm/core/index_runs.hpp>
#include <reef/swarm/core/peer_id.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// \file
/// Messages between peers. None of them decides anything: a message that is lost, late or doubled costs time, and
/// changes no result.

/// Bytes of an encoded piece (range of a vector), shared by all that keep or send them.
using Bulk = std::shared_ptr<const std::vector<std::byte>>;

/// The phase of a member in a round of averaging. `absent`: the peer is no member, or has not the newest weights.
enum class Phase : std::uint8_t { absent, accumulate, exchange, ready };

/// A sign of life of a peer, with everything about its progress in the round that others wait for; the newest one
/// replaces those before.
struct Beat {
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::int64_t attempt = 0;  ///< epoch in which the round's micro-batches were assigned (JobState::attempt)
  std::int64_t applied = 0;  ///< number of rounds that the sender's weights contain
  Phase phase = Phase::absent;
  bool closed = false;        ///< true: the sender takes no more micro-batches in this round
  std::int64_t computed = 0;  ///< number of micro-batches that the sender has computed in this round
  /// Number of micro-batches that the sender has computed since it started, which shows progress.
  std::int64_t steps = 0;
  std::vector<PeerId> whole{};  ///< contributors from which the sender has all data that it is to sum, ascending
  Digest targets{};             ///< digest of the list of contributors of the round, as the sender knows it
  /// Digest of the results of all pieces for these contributors; all zeros: the sender has not all of them.
  Digest root{};
  std::int64_t kept = 0;  ///< rounds of the newest state that the sender has kept for a checkpoint; 0: none
  Digest kept_root{};     ///< digest of that state

  friend bool operator==(const Beat&, const Beat&) = default;
};

/// A peer's contribution to a round, announced without its gradient data.
struct Offer {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
  std::vector<IndexRun> indices{};
  double weight = 0;  ///< 0: no part follows
  double loss = 0;    ///< the sum of weight * loss
  Digest digest{};    ///< root of the digests of its parts
  bool finite = true;  ///< false: the sum of these micro-batches is not finite; weight 0

  friend bool operator==(const Offer&, const Offer&) = default;
};

/// One piece (range of the vector) of a contribution, sent to the member that sums the piece.
struct Part {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
  std::int64_t piece = 0;
  Bulk bytes{};

  friend bool operator==(const Part&, const Part&) = default;
};

/// One piece (range of the vector) of a round's sum over those contributors whose list has the digest `targets`.
struct Result {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
  Digest targets{};
  std::int64_t piece = 0;
  Bulk bytes{};

  friend bool operator==(const Result&, const Result&) = default;
};

/// A request for pieces that have not arrived.
struct Want {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
  bool offer = false;
  std::vector<std::int64_t> parts{};    ///< indices of missing pieces of the receiver's contribution
  Digest targets{};                     ///< digest of the list of contributors whose sum is asked for
  std::vector<std::int64_t> results{};  ///< indices of missing pieces of the round's sum

  friend bool operator==(const Want&, const Want&) = default;
};

/// A request of a joining peer for pieces of the weights and the optimizer state.
struct WantState {
  std::vector<std::int64_t> pieces{};

  friend bool operator==(const WantState&, const WantState&) = default;
};

/// A piece (range) of the weights and optimizer state after `rounds` rounds.
struct StatePiece {
  std::int64_t rounds = 0;
  std::int64_t piece = 0;
  Bulk bytes{};
  std::int64_t lineage = 0;  ///< number of rollbacks before it, since a round that was rolled back is another one

  friend bool operator==(const StatePiece&, const StatePiece&) = default;
};

using Message = std::variant<Beat, Offer, Part, Result, Want, WantState, StatePiece>;

}  // namespace swarm
}  // namespace v0
}  // namespace reef
