#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/elastic/replay_exchange.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE ReplayExchange::ReplayExchange(const std::vector<Ledger::Round>& rounds)
    : ReplayExchange(rounds, PartCodec{}, 1) {}

REEF_INLINE ReplayExchange::ReplayExchange(const std::vector<Ledger::Round>& rounds, PartCodec codec,
                                           std::int64_t piece)
    : codec_(std::move(codec)), piece_(piece) {
  for (const Ledger::Round& round : rounds) {
    if (!round.applied) continue;
    const std::size_t before = parts_.size();
    for (const Share& share : round.shares) {
      if (share.weight == 0) continue;
      const bool is_first = parts_.size() == before;
      parts_.push_back({round.round, share.id, is_first, false, share.weight, indices_of(share.indices)});
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
  const std::span<const float> received =
      codec_.is_fp32() ? contribution.gradient : as_received(part, contribution.gradient);
  if (part.is_first) {
    outcome_ = {};
    sum_.assign(received.begin(), received.end());
  } else {
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += received[i];
  }
  outcome_.contributors.push_back(static_cast<std::int64_t>(outcome_.contributors.size()));
  outcome_.weight += contribution.weight;
  outcome_.weighted_loss += contribution.weighted_loss;
  outcome_.micro_batches += static_cast<std::int64_t>(contribution.micro_batches.size());
}

REEF_INLINE RoundOutcome ReplayExchange::result(std::span<float> sum) {
  const Part& part = parts_.at(done_++);
  outcome_.verdict = part.is_last ? RoundOutcome::Verdict::apply : RoundOutcome::Verdict::skip;
  if (!part.is_last) return outcome_;
  if (codec_.is_fp32()) {
    std::copy(sum_.begin(), sum_.end(), sum.begin());
    return outcome_;
  }
  std::vector<Bulk> results;
  for (std::span<const float> rest = sum_; !rest.empty();) {
    const auto own = rest.first((std::min)(rest.size(), static_cast<std::size_t>(piece_)));
    results.push_back(codec_.encode_result(own));
    rest = rest.subspan(own.size());
  }
  read_results(codec_, results, piece_, sum);
  return outcome_;
}

REEF_INLINE std::span<const float> ReplayExchange::as_received(const Part& part, std::span<const float> gradient) {
  const auto numbers = static_cast<std::int64_t>(gradient.size());
  const PeerId owner = codec_.state(numbers) != 0 ? part.peer : PeerId{};
  ContributionEncoder& encoder = encoders_.try_emplace(owner, codec_, numbers, piece_).first->second;
  const std::vector<Bulk> parts = encoder.encode(gradient);
  encoder.advance();
  received_.resize(gradient.size());
  std::span<float> rest = received_;
  for (const Bulk& bytes : parts) {
    const auto own = rest.first((std::min)(rest.size(), static_cast<std::size_t>(piece_)));
    codec_.decode_part(bytes, own);
    rest = rest.subspan(own.size());
  }
  return received_;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
