#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <reef/comm/await_task.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/elastic/round_exchange.hpp>

namespace reef {
inline namespace v0 {
namespace swarm::detail {

/// What a step needs of a round's outcome, as the bytes of a storage.
struct RoundScalars {
  double weight = 0;
  double weighted_loss = 0;
  double squares = 0;  ///< of the result, if they are known
  std::int64_t micro_batches = 0;
  bool squares_known = false;
  bool applies = false;
};

/// The calls of a RoundExchange by a step's instructions, and the thread that waits for a round's result.
///
/// | life | the destructor interrupts a wait that is under way, and joins its thread |
class Rounds {
public:
  explicit Rounds(RoundExchange& exchange) : exchange_(exchange) {}
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;
  ~Rounds();

  [[nodiscard]] RoundExchange& exchange() const& { return exchange_; }
  void exchange() const&& = delete;

  /// Returns the number of the next micro-batch. Throws OptionError for one below 0.
  [[nodiscard]] std::optional<std::uint64_t> next() const;

  /// Waits on a thread of its own for the result, writes it and the outcome, and completes or fails the task of
  /// `completion`.
  void await(std::span<float> sum, RoundScalars* scalars, comm::AwaitTask::Completion completion);

private:
  void join();

  RoundExchange& exchange_;
  std::atomic<bool> waits_{false};
  std::thread thread_;
};

}  // namespace swarm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/elastic/detail/rounds.ipp>
#endif
