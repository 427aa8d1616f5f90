#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/elastic/round_exchange.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The RoundExchange of a trainer whose rounds an AveragingPeer agrees on with other processes. A TrainerPeer connects
/// the two: the exchange is made before its trainer, the AveragingPeer after it.
///
/// | result | the sum over the round's contributors, in ascending order of their ids; `skip` for a round that |
/// |        | changes nothing, or that went on without this peer                                              |
/// | counts | a micro-batch is told to others as computed when the next one is asked for                      |
/// | errors | Error where there is no TrainerPeer, and those of AveragingPeer                                 |
///
/// \code
/// // given: swarm::PeerExchange& exchange
/// Trainer<swarm::Averaged<optim::AdamW>>::Options options;
/// options.optim.exchange = &exchange;
/// \endcode
class PeerExchange final : public RoundExchange {
public:
  void begin(std::int64_t steps) override;
  std::optional<std::int64_t> next_micro_batch() override;
  void offer(const Contribution& contribution) override;
  RoundOutcome result(std::span<float> sum) override;
  void interrupt() noexcept override;

  /// Returns the outcome of the last round that has a result (weight, loss, contributors), without the summed vector.
  /// On the trainer's thread, between steps.
  [[nodiscard]] const RoundSum& last() const& { return last_; }
  void last() const&& = delete;

private:
  friend class TrainerPeer;
  class Call;

  void connect(AveragingPeer& peer);
  /// Ends all calls by an exception, and returns when none is running.
  void disconnect() noexcept;

  std::mutex mutex_;
  std::condition_variable idle_;
  AveragingPeer* peer_ = nullptr;  // under mutex_, as `calls_`
  int calls_ = 0;
  bool computes_ = false;  // the trainer has a micro-batch that is not counted yet
  RoundSum last_{};
};

/// Returns the facts of a job (its genesis) with those that a trainer knows: Genesis::parameters, `piece` and `model`,
/// the digest of the architecture and of all present weights. The other members are those of `genesis`. To be called
/// before the first step.
///
/// | piece | whole blocks of 4096 numbers, about a sixteenth of the layout, 2^18 at most (1 MiB in fp32) |
/// | cost  | a pass over the weights, and over the optimizer's state                                     |
///
/// \code
/// // given: Training& trainer
/// swarm::Genesis job{.job = "example", .recipe = "averaged", .seed = 1, .global_batch = 8};
/// job = swarm::genesis_of(trainer, job);
/// \endcode
Genesis genesis_of(Training& training, Genesis genesis);

/// Returns functions that read and write a trainer's weights, optimizer state and progress, in pieces of `numbers`
/// numbers of the flat parameter vector: what a peer that joins gets from others. The trainer outlives them, and keeps
/// its state in host memory.
///
/// \code
/// // given: Training& trainer, swarm::AveragingOptions& options
/// options.state = swarm::state_access(trainer, options.genesis.piece);
/// \endcode
StateAccess state_access(Training& training, std::int64_t numbers);

/// A trainer that takes part in a job with others, which come and go: the AveragingPeer of a PeerExchange and its
/// trainer.
///
/// | options | AveragingOptions::state is set here, unless it is given: a peer that joins late gets the      |
/// |         | state of the others                                                                           |
/// | life    | declared behind the trainer, and ends before it. The destructor ends a step that is under way |
/// | errors  | those of AveragingPeer; OptionError for an exchange that has a peer already                   |
///
/// \code
/// #include <reef/swarm/log/remote_log.hpp>
/// // given: swarm::PeerExchange& exchange, Trainer<swarm::Averaged<optim::AdamW>>& trainer
/// // given: const swarm::AveragingOptions& options
/// swarm::RemoteLog log("http://127.0.0.1:4100");
/// swarm::TrainerPeer peer(exchange, trainer, options, log, log);
/// for (auto rounds = peer->enter(); rounds && *rounds < 100; rounds = peer->enter()) trainer.step();
/// peer->leave("all rounds are done");
/// \endcode
class TrainerPeer {
public:
  /// Joins the job of `log`, which has the job's decisions. All arguments given by reference outlive this object.
  TrainerPeer(PeerExchange& exchange, Training& training, AveragingOptions options, DecisionLog& log,
              Presence& presence);
  ~TrainerPeer();
  TrainerPeer(const TrainerPeer&) = delete;
  TrainerPeer& operator=(const TrainerPeer&) = delete;

  AveragingPeer* operator->() & { return &peer_; }
  AveragingPeer* operator->() && = delete;

private:
  PeerExchange& exchange_;
  AveragingPeer peer_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/elastic/peer_exchange.ipp>
#endif
