#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/hash.hpp>
#include <reef/swarm/core/pieces.hpp>
#include <reef/swarm/elastic/peer_exchange.hpp>
#include <reef/swarm/elastic/state_pieces.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Keeps the peer of an exchange while a call uses it.
class PeerExchange::Call {
public:
  explicit Call(PeerExchange& exchange) : exchange_(exchange) {
    const std::scoped_lock lock(exchange_.mutex_);
    peer_ = exchange_.peer_;
    if (peer_ == nullptr) {
      throw Error(
          "reef::swarm::PeerExchange: a step without a peer.\n"
          "  fix: a TrainerPeer that lives as long as steps are taken.");
    }
    ++exchange_.calls_;
  }
  ~Call() {
    const std::scoped_lock lock(exchange_.mutex_);
    --exchange_.calls_;
    exchange_.idle_.notify_all();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  AveragingPeer* operator->() const { return peer_; }

private:
  PeerExchange& exchange_;
  AveragingPeer* peer_ = nullptr;
};

REEF_INLINE void PeerExchange::connect(AveragingPeer& peer) {
  const std::scoped_lock lock(mutex_);
  if (peer_ != nullptr) {
    throw OptionError("reef::swarm::PeerExchange: it has a peer already.\n  fix: an exchange for each trainer.");
  }
  peer_ = &peer;
}

REEF_INLINE void PeerExchange::disconnect() noexcept {
  std::unique_lock lock(mutex_);
  if (peer_ == nullptr) return;
  peer_->interrupt();
  peer_ = nullptr;
  idle_.wait(lock, [this] { return calls_ == 0; });
}

REEF_INLINE void PeerExchange::begin(std::int64_t /*steps*/) { computes_ = false; }

REEF_INLINE std::optional<std::int64_t> PeerExchange::next_micro_batch() {
  const Call peer(*this);
  if (std::exchange(computes_, false)) peer->computed();
  const std::optional<std::int64_t> next = peer->next();
  computes_ = next.has_value();
  return next;
}

REEF_INLINE void PeerExchange::offer(const Contribution& contribution) {
  const Call peer(*this);
  peer->contribute(contribution.gradient, contribution.weight, contribution.weighted_loss, contribution.micro_batches);
}

REEF_INLINE RoundOutcome PeerExchange::result(std::span<float> sum) {
  const Call peer(*this);
  last_ = peer->result(sum);
  RoundOutcome outcome;
  outcome.verdict = last_.apply ? RoundOutcome::Verdict::apply : RoundOutcome::Verdict::skip;
  outcome.weight = last_.weight;
  outcome.weighted_loss = last_.loss;
  outcome.micro_batches = last_.micro_batches;
  for (std::size_t place = 0; place < last_.contributors.size(); ++place) {
    outcome.contributors.push_back(static_cast<std::int64_t>(place));
  }
  return outcome;
}

REEF_INLINE void PeerExchange::interrupt() noexcept {
  const std::scoped_lock lock(mutex_);
  if (peer_ != nullptr) peer_->interrupt();
}

REEF_INLINE Genesis genesis_of(Training& training, Genesis genesis) {
  constexpr std::int64_t block = 4096;
  constexpr std::int64_t largest = std::int64_t{1} << 18;
  constexpr std::int64_t share = 16;
  genesis.parameters = std::as_const(training).plan().layout.trained_elements;
  const std::int64_t blocks = (genesis.parameters / share + block - 1) / block;
  genesis.piece = (std::clamp)(blocks * block, block, largest);
  const StatePieces pieces(training, genesis.piece);
  std::vector<Digest> digests;
  const std::string architecture = concat(graph::hash_of(*std::as_const(training).plan().dag));
  digests.push_back(sha256(std::as_bytes(std::span(architecture))));
  for (std::int64_t k = 0; k < pieces.count(); ++k) digests.push_back(sha256(pieces.read(k)));
  genesis.model = root_of(digests, sha256);
  return genesis;
}

REEF_INLINE StateAccess state_access(Training& training, std::int64_t numbers) {
  const auto pieces = std::make_shared<StatePieces>(training, numbers);
  StateAccess access;
  access.read = [pieces](std::int64_t piece) {
    return std::make_shared<const std::vector<std::byte>>(pieces->read(piece));
  };
  access.write = [pieces, &training](std::span<const Bulk> all, std::int64_t /*rounds*/, std::int64_t applied) {
    for (std::size_t k = 0; k < all.size(); ++k) pieces->write(static_cast<std::int64_t>(k), *all[k]);
    training.set_progress(applied, training.new_micro_batches());
  };
  return access;
}

namespace detail {

/// Returns the options of a peer with the state of its trainer, where they have none.
inline AveragingOptions with_state_of(Training& training, AveragingOptions options) {
  if (!options.state.read) options.state = state_access(training, options.genesis.piece);
  return options;
}

}  // namespace detail

REEF_INLINE TrainerPeer::TrainerPeer(PeerExchange& exchange, Training& training, AveragingOptions options,
                                     DecisionLog& log, Presence& presence)
    : exchange_(exchange), peer_(detail::with_state_of(training, std::move(options)), log, presence) {
  exchange_.connect(peer_);
}

REEF_INLINE TrainerPeer::~TrainerPeer() { exchange_.disconnect(); }

}  // namespace swarm
}  // namespace v0
}  // namespace reef
