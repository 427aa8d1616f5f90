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
/// The kinds of entry of a job's replicated log. Replaying the entries in order (core::apply) gives the members, the
/// account of micro-batches, and the list of committed rounds. An entry holds because it stands at its index of the
/// log, and for no other reason.

/// The first entry of a job's log: the facts on which all of its peers agree.
struct Genesis {
  std::string job{};
  std::string recipe{};  ///< policies, update rule and their options, as text that peers compare
  Digest model{};        ///< digest of the architecture and the initial weights
  Digest data{};         ///< digest of the training data, as peers train on it
  Digest shards{};       ///< digest of the list of the data's shards (average/shard_list.hpp); none: nobody gives them
  /// Digest of the update rule's results on fixed vectors: processors with other arithmetic have another one.
  Digest update_class{};
  std::uint64_t seed = 0;
  std::int64_t global_batch = 1;  ///< micro-batches of a round, at least
  std::int64_t parameters = 0;    ///< numbers in the flat parameter layout
  std::int64_t piece = 0;         ///< numbers in a piece, the last one may have fewer
  std::string codec{};            ///< of contributions and results (average/part_codec.hpp)
  std::int64_t checkpoint = 0;    ///< rounds from one checkpoint to the next; 0: none

  friend bool operator==(const Genesis&, const Genesis&) = default;
};

/// A member of a job: its id, the address at which others reach it, and its bandwidth in bytes a second.
struct Member {
  PeerId id{};
  std::string address{};
  double up = 0;
  double down = 0;

  friend bool operator==(const Member&, const Member&) = default;
};

/// The membership of the job from this log entry on, in ascending order of ids.
struct ViewEntry {
  std::int64_t epoch = 0;  ///< number of this membership: one more than that of the one before
  std::vector<Member> members{};
  std::string why{};

  friend bool operator==(const ViewEntry&, const ViewEntry&) = default;
};

/// The decision that a round is summed over fewer contributors than the job has members: those whose data all reducers
/// have. The others stay members.
struct Exclude {
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::vector<PeerId> contributors{};

  friend bool operator==(const Exclude&, const Exclude&) = default;
};

/// The share of one contributor in a committed round.
struct Share {
  PeerId id{};
  std::vector<IndexRun> indices{};  ///< the micro-batches in its gradient sum
  double weight = 0;                ///< the sum of their loss weights
  Digest digest{};                  ///< of its encoded parts
  bool finite = true;               ///< false: its sum was not finite; it has no parts and weight 0

  friend bool operator==(const Share&, const Share&) = default;
};

/// The decision about a round's gradient sum: computed by one peer, applied by all.
struct RoundVerdict {
  bool finite = true;  ///< false: a number is not finite, and the round changes no weight
  double norm = 0;     ///< L2 norm of the mean gradient
  double scale = 1;    ///< factor by which gradient clipping multiplies the gradient
  double loss = 0;     ///< mean loss over micro-batches, weighted by loss weight

  friend bool operator==(const RoundVerdict&, const RoundVerdict&) = default;
};

/// The commit of a round. It is appended to the log once enough peers hold the round's whole result that it survives
/// failures.
struct Commit {
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::vector<Share> shares{};  ///< one share for each contributor, in ascending order of ids
  Digest root{};  ///< digest over the digests of the results of all pieces (ranges of the parameter vector)
  RoundVerdict verdict{};
  std::vector<PeerId> holders{};     ///< members that have the whole result
  std::vector<PeerId> stragglers{};  ///< members that do not have the whole result yet

  friend bool operator==(const Commit&, const Commit&) = default;
};

/// A return to the weights after `rounds` committed rounds, because nobody has a later committed result any more.
struct Rollback {
  std::int64_t rounds = 0;
  std::string why{};

  friend bool operator==(const Rollback&, const Rollback&) = default;
};

/// A decision that micro-batches are left out of the job: they are computed no more.
struct Quarantine {
  std::vector<IndexRun> indices{};
  std::string why{};

  friend bool operator==(const Quarantine&, const Quarantine&) = default;
};

/// The decision what the state of all peers (weights and optimizer) is after `rounds` rounds. A peer whose state is
/// another one leaves; one that has ended begins again with the state that it has kept.
struct LogCheckpoint {
  std::int64_t rounds = 0;
  Digest root{};  ///< digest over the digests of all pieces of the state
  std::vector<PeerId> holders{};  ///< members that have kept this state, in ascending order
  /// The summary (core::summary_of) of the job's state before this entry: who reads it needs no entry before this one.
  /// Empty where it is too large for an entry.
  std::string summary{};

  friend bool operator==(const LogCheckpoint&, const LogCheckpoint&) = default;
};

/// A text in the log that is no valid entry; every reader skips it.
struct Unreadable {
  std::string why{};

  friend bool operator==(const Unreadable&, const Unreadable&) = default;
};

/// An entry of the log, its author, and a number drawn for each append, by which an author knows its own entries again.
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
