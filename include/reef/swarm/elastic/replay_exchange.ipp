#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/elastic/replay_exchange.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE ReplayExchange::ReplayExchange(const std::vector<Ledger::Round>& rounds) {
  for (const Ledger::Round& round : rounds) {
    if (!round.applied) continue;
    const std::size_t before = parts_.size();
    for (const Share& share : round.shares) {
      if (share.weight == 0) continue;
      parts_.push_back({round.round, parts_.size() == before, false, share.weight, indices_of(share.indices)});
    }
    if (parts_.size() > before) parts_.back().is_last = true;
  }
}

REEF_INLINE void ReplayExchange::begin(std::int64_t /*steps*/) {
  if (is_done()) {
    throw OptionError(
        "reef::swarm::ReplayExchange: a step after the last round.\n  fix: while (!replay.is_done()) ...");
  }
  taken_ = 0;
}

REEF_INLINE std::optional<std::int64_t> ReplayExchange::next_micro_batch() {
  const Part& part = parts_.at(done_);
  if (taken_ == part.micro_batches.size()) return std::nullopt;
  return part.micro_batches[taken_++];
}

REEF_INLINE void ReplayExchange::offer(const Contribution& contribution) {
  const Part& part = parts_.at(done_);
  if (contribution.weight != part.weight) {
    throw OptionError("reef::swarm::ReplayExchange: a contribution to round ", part.round, " weighs ",
                      contribution.weight, ", and ", part.weight,
                      " in the ledger.\n  why: other data, or micro-batches of another size.\n"
                      "  fix: the data and the batch of the job.");
  }
  if (part.is_first) {
    outcome_ = {};
    sum_.assign(contribution.gradient.begin(), contribution.gradient.end());
  } else {
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += contribution.gradient[i];
  }
  outcome_.contributors.push_back(static_cast<std::int64_t>(outcome_.contributors.size()));
  outcome_.weight += contribution.weight;
  outcome_.weighted_loss += contribution.weighted_loss;
  outcome_.micro_batches += static_cast<std::int64_t>(contribution.micro_batches.size());
}

REEF_INLINE RoundOutcome ReplayExchange::result(std::span<float> sum) {
  const Part& part = parts_.at(done_++);
  outcome_.verdict = part.is_last ? RoundOutcome::Verdict::apply : RoundOutcome::Verdict::skip;
  if (part.is_last) std::copy(sum_.begin(), sum_.end(), sum.begin());
  return outcome_;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
