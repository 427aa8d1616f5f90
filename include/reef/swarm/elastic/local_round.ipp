#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/elastic/local_round.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// What members have offered to a round, and what came of it.
struct LocalRound::Round {
  struct Offer {
    std::vector<float> gradient{};
    double weight = 0;
    double weighted_loss = 0;
    std::int64_t micro_batches = 0;
  };

  std::vector<std::optional<Offer>> offers{};  ///< by member
  std::vector<bool> read{};                    ///< by member
  bool closed = false;
  std::vector<float> sum{};
  RoundOutcome outcome{};
};

class LocalRound::Member final : public RoundExchange {
public:
  Member(LocalRound& rounds, int index) : rounds_(rounds), index_(index) {}

  void begin(std::int64_t /*steps*/) override {
    ++round_;
    taken_ = 0;
  }
  std::optional<std::int64_t> next_micro_batch() override { return rounds_.deal_(index_, round_, taken_++); }
  void offer(const Contribution& contribution) override { rounds_.offer(index_, round_, contribution); }
  RoundOutcome result(std::span<float> sum) override { return rounds_.result(index_, round_, sum); }
  void interrupt() noexcept override { rounds_.leave(index_); }

private:
  LocalRound& rounds_;
  int index_;
  std::int64_t round_ = -1;
  std::int64_t taken_ = 0;
};

REEF_INLINE LocalRound::LocalRound(int members, Deal deal) : deal_(std::move(deal)) {
  if (members < 1 || !deal_) {
    throw OptionError("reef::swarm::LocalRound: ", members, " members", deal_ ? "" : ", and no deal",
                      ".\n  fix: 1 or more, and a function that deals micro-batches.");
  }
  for (int index = 0; index < members; ++index) members_.push_back(std::make_unique<Member>(*this, index));
  left_.resize(members_.size());
}

REEF_INLINE LocalRound::~LocalRound() = default;

REEF_INLINE LocalRound::Deal LocalRound::in_turns(std::vector<std::int64_t> counts) {
  return [counts = std::move(counts)](int member, std::int64_t round,
                                      std::int64_t taken) -> std::optional<std::int64_t> {
    const auto own = static_cast<std::size_t>(member);
    if (taken >= counts.at(own)) return std::nullopt;
    std::int64_t number = 0;
    for (std::size_t m = 0; m < counts.size(); ++m) {
      number += round * counts[m] + (std::min)(counts[m], taken + (m < own ? 1 : 0));
    }
    return number;
  };
}

REEF_INLINE RoundExchange& LocalRound::member(int index) & { return *members_.at(static_cast<std::size_t>(index)); }

REEF_INLINE void LocalRound::leave(int index) {
  const std::scoped_lock lock(mutex_);
  left_.at(static_cast<std::size_t>(index)) = true;
  for (auto& [number, round] : rounds_) close_if_complete(round);
  std::erase_if(rounds_, [this](const auto& entry) {
    const Round& round = entry.second;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (!round.read[m] && !left_[m]) return false;
    }
    return true;
  });
  changed_.notify_all();
}

REEF_INLINE void LocalRound::offer(int index, std::int64_t number, const Contribution& contribution) {
  Round::Offer offer{{contribution.gradient.begin(), contribution.gradient.end()},
                     contribution.weight,
                     contribution.weighted_loss,
                     static_cast<std::int64_t>(contribution.micro_batches.size())};
  const std::scoped_lock lock(mutex_);
  if (has_left(index)) return;
  Round& round = rounds_[number];
  round.offers.resize(members_.size());
  round.read.resize(members_.size());
  for (const std::optional<Round::Offer>& other : round.offers) {
    if (!other || other->gradient.size() == offer.gradient.size()) continue;
    throw OptionError("reef::swarm::LocalRound: member ", index, " offers ", offer.gradient.size(),
                      " numbers, and another one ", other->gradient.size(), ".\n  fix: members with the same model.");
  }
  round.offers[static_cast<std::size_t>(index)] = std::move(offer);
  close_if_complete(round);
}

REEF_INLINE void LocalRound::close_if_complete(Round& round) {
  if (round.closed) return;
  for (std::size_t m = 0; m < members_.size(); ++m) {
    if (!round.offers[m] && !left_[m]) return;
  }
  for (std::size_t m = 0; m < members_.size(); ++m) {
    if (!round.offers[m]) continue;
    const Round::Offer offer = *std::exchange(round.offers[m], std::nullopt);
    if (round.sum.empty()) round.sum.resize(offer.gradient.size());
    if (offer.micro_batches == 0) continue;
    const bool first = round.outcome.contributors.empty();
    for (std::size_t i = 0; i < offer.gradient.size(); ++i) {
      round.sum[i] = first ? offer.gradient[i] : round.sum[i] + offer.gradient[i];
    }
    round.outcome.weight += offer.weight;
    round.outcome.weighted_loss += offer.weighted_loss;
    round.outcome.micro_batches += offer.micro_batches;
    round.outcome.contributors.push_back(static_cast<std::int64_t>(m));
  }
  const bool finite = std::all_of(round.sum.begin(), round.sum.end(), [](float x) { return is_finite(x); });
  const bool applies = finite && round.outcome.weight > 0;
  round.outcome.verdict = applies ? RoundOutcome::Verdict::apply : RoundOutcome::Verdict::skip;
  round.closed = true;
  changed_.notify_all();
}

REEF_INLINE RoundOutcome LocalRound::result(int index, std::int64_t number, std::span<float> sum) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return has_left(index) || rounds_.at(number).closed; });
  if (has_left(index)) throw Error("reef::swarm::LocalRound: member ", index, " has left.");
  Round& round = rounds_.at(number);
  if (sum.size() != round.sum.size()) {
    throw OptionError("reef::swarm::LocalRound: the sum of round ", number, " has ", round.sum.size(),
                      " numbers, and there is room for ", sum.size(), ".\n  fix: members with the same model.");
  }
  std::copy(round.sum.begin(), round.sum.end(), sum.begin());
  RoundOutcome outcome = round.outcome;
  round.read[static_cast<std::size_t>(index)] = true;
  bool all = true;
  for (std::size_t m = 0; m < members_.size(); ++m) all = all && (round.read[m] || left_[m]);
  if (all) rounds_.erase(number);
  return outcome;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
