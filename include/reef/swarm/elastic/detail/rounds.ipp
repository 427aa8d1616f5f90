#pragma once

#include <exception>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/thread.hpp>
#include <reef/swarm/elastic/detail/rounds.hpp>

namespace reef {
inline namespace v0 {
namespace swarm::detail {

REEF_INLINE Rounds::~Rounds() {
  if (waits_.load()) exchange_.interrupt();
  join();
}

REEF_INLINE std::optional<std::uint64_t> Rounds::next() const {
  const std::optional<std::int64_t> number = exchange_.next_micro_batch();
  if (!number) return std::nullopt;
  if (*number >= 0) return static_cast<std::uint64_t>(*number);
  throw OptionError("reef::swarm: next_micro_batch() returns ", *number,
                    ".\n  fix: the index of a micro-batch, 0 or more, or nothing when the round is closed.");
}

REEF_INLINE void Rounds::await(std::span<float> sum, RoundScalars* scalars, comm::AwaitTask::Completion completion) {
  join();
  waits_.store(true);
  thread_ = make_thread("reef::swarm: the thread of results", [this, sum, scalars, completion = std::move(completion)] {
    std::exception_ptr error;
    try {
      const RoundOutcome outcome = exchange_.result(sum);
      *scalars = {outcome.weight,
                  outcome.weighted_loss,
                  outcome.squares.value_or(0),
                  outcome.micro_batches,
                  outcome.squares.has_value(),
                  outcome.verdict == RoundOutcome::Verdict::apply};
    } catch (...) {
      error = std::current_exception();
    }
    waits_.store(false);
    if (error) {
      completion.fail(std::move(error));
    } else {
      completion.complete();
    }
  });
}

REEF_INLINE void Rounds::join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace swarm::detail
}  // namespace v0
}  // namespace reef
