#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The gradient sum that a peer gives to a round of averaging, over the micro-batches that it has computed for it.
///
///     gradient = sum over micro-batches of weight * gradient of the mean loss        elements in the flat layout
///
/// | layout  | graph::ParameterLayout: trained_elements numbers, the first uses of trained parameters with padding, |
/// |         | to which tied uses are added; it follows from the model alone, not from a peer's cuts                |
/// | nothing | of a peer that has computed no micro-batch: weight 0, no indices, and a gradient of zeros            |
struct Contribution {
  std::span<const float> gradient;  ///< gradient sum, trained_elements numbers in host memory
  double weight = 0;                ///< sum of the loss weights of the micro-batches
  double weighted_loss = 0;         ///< sum of loss weight * loss
  /// Indices of the micro-batches in the job, in the order in which they were added.
  std::vector<std::int64_t> micro_batches{};
};

/// The outcome of a round of averaging, with the same bits for every peer.
struct RoundOutcome {
  /// The decision on a round: `skip` leaves weights and optimizer state as they are.
  enum class Verdict : std::uint8_t { apply, skip };

  Verdict verdict = Verdict::apply;
  double weight = 0;               ///< sum of the loss weights of all contributors
  double weighted_loss = 0;        ///< sum of loss weight * loss of all contributors
  std::int64_t micro_batches = 0;  ///< number of micro-batches of all contributors
  /// The sum of the squares of the result's elements. If absent, each peer computes it, which peers with equal
  /// instruction sets do with equal bits.
  std::optional<double> squares{};
  /// Ids of the contributors, in the order in which their gradients were added.
  std::vector<std::int64_t> contributors{};
};

/// A trainer's exchange of gradients with other peers, round by round: the trainer computes micro-batches that the
/// exchange names, gives their gradient sum, and applies the sum over all contributors.
///
///     begin  { next_micro_batch }  offer  result        once a round, in this order
///
/// | threads | one call after another, on several threads; result is called on a thread of its own, and interrupt |
/// |         | on any thread meanwhile                                                                            |
/// | blocks  | result, and next_micro_batch while there is none to compute yet, in which time the compute thread  |
/// |         | stands still; the others return within a moment                                                    |
/// | errors  | an exception of any of them ends the step and makes the trainer unusable                           |
/// | life    | outlives the trainer, which calls interrupt if it goes while a call of result() is under way       |
/// | models  | LocalRound                                                                                         |
///
/// \code
/// // given: swarm::RoundExchange& exchange, std::span<float> gradient
/// exchange.begin(0);
/// std::vector<std::int64_t> computed;
/// while (const std::optional<std::int64_t> next = exchange.next_micro_batch()) computed.push_back(*next);
/// exchange.offer({gradient, 1.0 * static_cast<double>(computed.size()), 0.0, computed});
/// const swarm::RoundOutcome outcome = exchange.result(gradient);
/// \endcode
class RoundExchange {
public:
  RoundExchange() = default;
  RoundExchange(const RoundExchange&) = delete;
  RoundExchange& operator=(const RoundExchange&) = delete;
  virtual ~RoundExchange() = default;

  /// Begins the trainer's next round. `steps`: the number of steps that the trainer has completed.
  virtual void begin(std::int64_t steps) = 0;

  /// Returns the index in the job of the next micro-batch that this peer computes in the round, or nothing once the
  /// round is closed. Called between two micro-batches; each micro-batch returned is computed and offered.
  virtual std::optional<std::int64_t> next_micro_batch() = 0;

  /// Takes the peer's contribution to the round, also one without micro-batches (weight 0). `contribution.gradient`
  /// stays valid and unchanged until result() writes the sum, which takes its place.
  virtual void offer(const Contribution& contribution) = 0;

  /// Blocks until the round is committed, writes the sum over its contributors into `sum` (trained_elements numbers of
  /// the flat parameter layout: the memory of the contribution), and returns the outcome. If the outcome is `skip`,
  /// `sum` is unspecified. A peer whose contribution was left out gets the same sum.
  virtual RoundOutcome result(std::span<float> sum) = 0;

  /// Ends calls that block, now and later, with an exception: the trainer takes part no more.
  virtual void interrupt() noexcept = 0;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
