#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/swarm/average/part_codec.hpp>
#include <reef/swarm/core/ledger.hpp>
#include <reef/swarm/elastic/round_exchange.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// An exchange that gives one trainer the recorded rounds of a job (its ledger), so that alone it comes to the same
/// weights, bit for bit.
///
///     a round of contributors a < b < c:  3 steps    g_a, skipped    g_b, skipped    g_a + g_b + g_c, applied
///
/// | steps  | one for each contributor with micro-batches, in ascending order of ids; only the round's last one |
/// |        | changes weights, so the trainer needs NonFinite::skip. Rounds that were skipped take none         |
/// | bits   | those of the peers, on a machine of their update class, from the weights that the job began with  |
/// | codec  | contributions are encoded and decoded as the job's are, each peer's with its memory, and so is the |
/// |        | sum                                                                                               |
/// | memory | a gradient beside the trainer's; with a codec another, and with one that has a memory twice that  |
/// |        | for each peer that has contributed                                                                |
/// | errors | OptionError: more steps than steps(); a contributor's loss weight that is not the ledger's        |
///
/// \code
/// // given: const swarm::Ledger& ledger
/// swarm::ReplayExchange replay(ledger.rounds());
/// // with a Trainer of which options.optim.exchange = &replay:  while (!replay.is_done()) trainer.step();
/// \endcode
class ReplayExchange final : public RoundExchange {
public:
  explicit ReplayExchange(const std::vector<Ledger::Round>& rounds);
  /// Constructs the replay of a job whose Genesis::codec and Genesis::piece are these.
  ReplayExchange(const std::vector<Ledger::Round>& rounds, PartCodec codec, std::int64_t piece);

  void begin(std::int64_t steps) override;
  std::optional<std::int64_t> next_micro_batch() override;
  void offer(const Contribution& contribution) override;
  RoundOutcome result(std::span<float> sum) override;
  void interrupt() noexcept override {}

  /// Returns the number of steps that the trainer needs for all recorded rounds.
  [[nodiscard]] std::int64_t steps() const { return static_cast<std::int64_t>(parts_.size()); }
  [[nodiscard]] bool is_done() const { return done_ == parts_.size(); }
  /// Returns the number of the round that the next step belongs to. Throws std::out_of_range if there is none.
  [[nodiscard]] std::int64_t round() const { return parts_.at(done_).round; }

private:
  /// The micro-batches that one contributor has computed for a recorded round.
  struct Part {
    std::int64_t round = 0;
    PeerId peer{};
    bool is_first = false;  ///< of its round
    bool is_last = false;
    double weight = 0;
    std::vector<std::int64_t> micro_batches{};
  };

  /// Encodes a contribution as its peer did, and returns what it decodes to.
  [[nodiscard]] std::span<const float> as_received(const Part& part, std::span<const float> gradient);

  PartCodec codec_{};
  std::int64_t piece_ = 0;
  std::vector<Part> parts_{};
  std::size_t done_ = 0;
  std::size_t taken_ = 0;
  std::vector<float> sum_{};
  std::vector<float> received_{};                    ///< of the contribution in hand, decoded
  std::map<PeerId, ContributionEncoder> encoders_{};  ///< of a codec with memory: by peer; else one, of no peer
  RoundOutcome outcome_{};
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/elastic/replay_exchange.ipp>
#endif
