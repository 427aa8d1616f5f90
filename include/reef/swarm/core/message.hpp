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
/// The messages between peers. None decides anything: whatever is lost, late or doubled costs time and no bit.

/// The bytes of an encoded piece, shared by all that keep or send them.
using Bulk = std::shared_ptr<const std::vector<std::byte>>;

/// The phase of a member in a round. `absent`: it is no member, or has not the newest weights.
enum class Phase : std::uint8_t { absent, accumulate, exchange, ready };

/// A sign of life, and everything about its sender's round that others wait for; the newest one replaces those before.
struct Beat {
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::int64_t attempt = 0;  ///< JobState::attempt of the round
  std::int64_t applied = 0;  ///< rounds that its weights contain
  Phase phase = Phase::absent;
  bool closed = false;          ///< the sender takes no more micro-batches in this round
  std::int64_t computed = 0;    ///< micro-batches that it has computed in this round
  std::int64_t steps = 0;       ///< micro-batches that it has computed since it started: its progress
  std::vector<PeerId> whole{};  ///< the contributors of which it has all parts that it reduces, ascending
  Digest targets{};             ///< of the list of contributors of the round, as the sender knows it
  Digest root{};                ///< of the results of all pieces for these; all zeros: the sender has not all of them

  friend bool operator==(const Beat&, const Beat&) = default;
};

/// A peer's contribution to a round, without its parts.
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

/// One piece of a contribution, for the reducer of the piece.
struct Part {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
  std::int64_t piece = 0;
  Bulk bytes{};

  friend bool operator==(const Part&, const Part&) = default;
};

/// One piece of a round's result, for the contributors whose list has this digest.
struct Result {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
  Digest targets{};
  std::int64_t piece = 0;
  Bulk bytes{};

  friend bool operator==(const Result&, const Result&) = default;
};

/// A request for what has not come.
struct Want {
  std::int64_t round = 0;
  std::int64_t attempt = 0;
  bool offer = false;
  std::vector<std::int64_t> parts{};    ///< pieces of the receiver's contribution
  Digest targets{};                     ///< of the contributors of the results
  std::vector<std::int64_t> results{};  ///< pieces of the round's result

  friend bool operator==(const Want&, const Want&) = default;
};

/// A request of a joining peer for pieces of weights and optimizer state.
struct WantState {
  std::vector<std::int64_t> pieces{};

  friend bool operator==(const WantState&, const WantState&) = default;
};

/// A piece of weights and optimizer state after `rounds` rounds.
struct StatePiece {
  std::int64_t rounds = 0;
  std::int64_t piece = 0;
  Bulk bytes{};

  friend bool operator==(const StatePiece&, const StatePiece&) = default;
};

using Message = std::variant<Beat, Offer, Part, Result, Want, WantState, StatePiece>;

}  // namespace swarm
}  // namespace v0
}  // namespace reef
