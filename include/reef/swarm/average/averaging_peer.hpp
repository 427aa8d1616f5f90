#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/average/part_codec.hpp>
#include <reef/swarm/average/peer_report.hpp>
#include <reef/swarm/average/shard_files.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/core/peer.hpp>
#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The functions by which an AveragingPeer reads and replaces its trainer's weights and optimizer state, as a list of
/// byte strings (pieces).
///
/// | read  | returns a piece, for a peer that joins; called on the event loop's thread, never between the result of |
/// |       | a round and the next enter()                                                                           |
/// | write | replaces all pieces by those after `rounds` rounds; called in enter(). `applied`: rounds that changed  |
/// |       | weights                                                                                                |
struct StateAccess {
  std::function<Bulk(std::int64_t piece)> read{};
  std::function<void(std::span<const Bulk> pieces, std::int64_t rounds, std::int64_t applied)> write{};
};

/// The options of an AveragingPeer, a process that takes part in averaging.
struct AveragingOptions {
  Genesis genesis{};        ///< the job's name, parameter layout and global batch; all peers give the same
  EndpointOptions net{};    ///< network settings; `job` is that of the genesis; `name` is this peer's
  std::string advertise{};  ///< the address at which others reach this peer; empty: where it listens
  double up = 0;            ///< upload bandwidth in bytes a second; 0: unknown
  double down = 0;
  Deadlines deadlines{};
  std::int64_t first_members = 1;  ///< peers that the first round waits for
  /// The folder in which this peer keeps its state for checkpoints (Genesis::checkpoint), and from which it begins if
  /// it has ended. Empty: it only compares its state with that of the others.
  std::filesystem::path checkpoints{};
  StateAccess state{};             ///< without it, a peer can only join before the first round is committed
  /// The codecs of the job, where they are none that Genesis::codec can name: then it is a name by which peers compare.
  std::optional<PartCodec> codec{};
  /// The training data, which peers that come without it are given (fetch_shards); also sets Genesis::shards. Null:
  /// this peer gives none.
  std::shared_ptr<const ShardFiles> shards{};
  std::function<void(const std::string&)>
      report{};  ///< is given a line for each view and round; on the loop's thread
};

/// The sum of one round over the peers that contributed to it, equal on all peers.
struct RoundSum {
  std::int64_t round = 0;
  bool apply = true;  ///< false: no weight is to be changed
  double weight = 0;
  double loss = 0;  ///< sum over micro-batches of loss weight * loss
  std::int64_t micro_batches = 0;
  std::vector<PeerId> contributors{};
};

/// One process of a job that sums a vector over processes which come and go, one sum a round: the protocol of
/// core::Peer over sockets and a replicated log. It needs no Trainer and no MPI.
///
///     while (enter())  { next, computed }  contribute  result           on one thread
///
/// | agrees | all peers get the same bits in a round, whatever fails; each index is in one committed round at most |
/// | ends   | a peer that is killed is out of the view after about `suspect`, and the others go on                 |
/// | checks | every Genesis::checkpoint rounds the log says what the state of all is: a peer with another one     |
/// |        | leaves, and enter() returns nothing                                                                  |
/// | codec  | sums are encoded as Genesis::codec says (PartCodec); the memory of a codec that has one advances with |
/// |        | a round that is applied and has this peer among its contributors, and begins at 0 with the peer      |
/// | waits  | enter, next and result block; each wait has a reason, waits_for(), and ends with interrupt()         |
/// | errors | OptionError: a log of another job, a codec that there is not; Error from a call that interrupt()     |
/// |        | ended                                                                                                |
///
/// \code
/// #include <reef/swarm/log/remote_log.hpp>
/// // given: swarm::AveragingOptions options, std::vector<float> gradient
/// swarm::RemoteLog log("http://127.0.0.1:4100");
/// swarm::AveragingPeer peer(options, log, log);
/// while (peer.enter()) {
///   std::vector<std::int64_t> indices;
///   while (const auto index = peer.next()) {
///     indices.push_back(*index);
///     peer.computed();
///   }
///   peer.contribute(gradient, static_cast<double>(indices.size()), 0.0, indices);
///   const swarm::RoundSum sum = peer.result(gradient);
/// }
/// \endcode
class AveragingPeer {
public:
  /// Connects to the job. `log` (the job's replicated log) and `presence` (short-lived keys beside it) outlive this
  /// object.
  AveragingPeer(AveragingOptions options, DecisionLog& log, Presence& presence);
  ~AveragingPeer();
  AveragingPeer(const AveragingPeer&) = delete;
  AveragingPeer& operator=(const AveragingPeer&) = delete;

  /// Says that the result of the last round is applied, and blocks until this process is a member with the newest
  /// weights, and a round is in progress. Returns the number of rounds that its weights contain; nothing after leave().
  std::optional<std::int64_t> enter();

  /// Returns the index of the next micro-batch for this peer to compute; nothing once the round is closed. Blocks while
  /// no micro-batch of an open round is assigned to this peer.
  std::optional<std::int64_t> next();
  /// Notes that one more micro-batch of this round is computed.
  void computed();

  /// Gives this peer's sum over its micro-batches to the round, once a round. Copies `sum`. `weight`, `loss`: totals of
  /// the micro-batches' loss weights and of weight * loss; `indices`: the micro-batches.
  void contribute(std::span<const float> sum, double weight, double loss, std::vector<std::int64_t> indices);

  /// Blocks until the round is committed, and writes the sum over its contributors to `sum`.
  RoundSum result(std::span<float> sum);

  /// Leaves the job in order: blocks until the other members have agreed on a membership without this peer, at most
  /// `wait` seconds.
  void leave(const std::string& why, Seconds wait = 10);

  /// Ends calls that block, now and later, by an Error.
  void interrupt() noexcept;

  /// Returns why this peer is out of the job: it has left, or has other weights than the log says. Empty while it is
  /// in.
  [[nodiscard]] std::string why_gone() const;

  [[nodiscard]] core::JobState state() const;
  [[nodiscard]] const PeerId& id() const&;
  [[nodiscard]] PeerId id() const&& { return static_cast<const AveragingPeer&>(*this).id(); }
  [[nodiscard]] std::string address() const;
  /// Returns a sentence that says what this peer waits for, and for whom; empty if for nothing.
  [[nodiscard]] std::string waits_for() const;
  /// Returns what the log says so far, for what the trainer's thread has waited, and counts of bytes. Costs a pass over
  /// all shares of all rounds, in which the peer does nothing else.
  [[nodiscard]] PeerReport report() const;

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/averaging_peer.ipp>
#endif
