#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <reef/swarm/core/digest.hpp>
#include <reef/swarm/core/index_runs.hpp>
#include <reef/swarm/core/peer_id.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// \file
/// The entries of a job's log, whose fold (core::apply) is the membership, the ledger of micro-batches, and the list of
/// committed rounds. Each is decided by standing at its index of the log, and by nothing else.

/// The first entry: the facts of a job on which all of its peers agree.
struct Genesis {
  std::string job{};
  std::string recipe{};   ///< policies, rule and their options, as text that peers compare
  Digest model{};         ///< of the architecture and the initial weights
  Digest data{};          ///< of the training text's shards
  Digest update_class{};  ///< of what the update answers to fixed vectors on a peer's processor
  std::uint64_t seed = 0;
  std::int64_t global_batch = 1;  ///< micro-batches of a round, at least
  std::int64_t parameters = 0;    ///< numbers in the flat parameter layout
  std::int64_t piece = 0;         ///< numbers in a piece, the last one may have fewer
  std::string codec{};            ///< of contributions and results (average/part_codec.hpp)

  friend bool operator==(const Genesis&, const Genesis&) = default;
};

/// A member of a view: who it is, where others reach it, and its bandwidth in bytes a second.
struct Member {
  PeerId id{};
  std::string address{};
  double up = 0;
  double down = 0;

  friend bool operator==(const Member&, const Member&) = default;
};

/// The members of the job from this entry on, in ascending order of their ids.
struct ViewEntry {
  std::int64_t epoch = 0;  ///< one more than that of the view before
  std::vector<Member> members{};
  std::string why{};

  friend bool operator==(const ViewEntry&, const ViewEntry&) = default;
};

/// The contributors of a round, fewer than its members: those whose parts all reducers have. The others stay members.
struct Exclude {
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::vector<PeerId> contributors{};

  friend bool operator==(const Exclude&, const Exclude&) = default;
};

/// The part of one contributor in a committed round.
struct Share {
  PeerId id{};
  std::vector<IndexRun> indices{};  ///< the micro-batches in its gradient sum
  double weight = 0;                ///< the sum of their loss weights
  Digest digest{};                  ///< of its encoded parts
  bool finite = true;               ///< false: its sum was not finite; it has no parts and weight 0

  friend bool operator==(const Share&, const Share&) = default;
};

/// The verdict on a round's sum: computed by one peer, applied by all.
struct RoundVerdict {
  bool finite = true;  ///< false: the round changes no weight
  double norm = 0;     ///< of the mean gradient
  double scale = 1;    ///< by which clipping multiplies the gradient
  double loss = 0;     ///< mean over micro-batches, by weight

  friend bool operator==(const RoundVerdict&, const RoundVerdict&) = default;
};

/// The result of a round. It stands in the log once peers that survive have all of its pieces.
struct Commit {
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::vector<Share> shares{};  ///< of the contributors, ascending
  Digest root{};                ///< over the digests of the results of all pieces
  RoundVerdict verdict{};
  std::vector<PeerId> holders{};     ///< members that have all results
  std::vector<PeerId> stragglers{};  ///< the other members

  friend bool operator==(const Commit&, const Commit&) = default;
};

/// A return to the state after `rounds` rounds, where nobody has a later committed result any more.
struct Rollback {
  std::int64_t rounds = 0;
  std::string why{};

  friend bool operator==(const Rollback&, const Rollback&) = default;
};

/// Micro-batches that are not computed any more.
struct Quarantine {
  std::vector<IndexRun> indices{};
  std::string why{};

  friend bool operator==(const Quarantine&, const Quarantine&) = default;
};

/// A point from which the log can be read: the weights after `rounds` rounds are in a file, with this root.
struct LogCheckpoint {
  std::int64_t rounds = 0;
  Digest root{};

  friend bool operator==(const LogCheckpoint&, const LogCheckpoint&) = default;
};

/// Text of the log that is no entry: it changes nothing, for any reader.
struct Unreadable {
  std::string why{};

  friend bool operator==(const Unreadable&, const Unreadable&) = default;
};

/// An entry, its author, and a number that its author draws for each append, by which it knows its own again.
struct Entry {
  using What = std::variant<Genesis, ViewEntry, Exclude, Commit, Rollback, Quarantine, LogCheckpoint, Unreadable>;

  PeerId author{};
  std::uint64_t nonce = 0;
  What what{};

  friend bool operator==(const Entry&, const Entry&) = default;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
