#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/simulated_job.hpp>
#include <reef/swarm/core/ledger.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// The account of a simulated job that its laws are tested against: made of the commits of the log alone.
class SimulatedAccount {
public:
  explicit SimulatedAccount(std::int64_t pieces)
      : weights_{std::vector<std::uint64_t>(static_cast<std::size_t>(pieces))} {}

  /// Notes a commit. Returns the law that it breaks; empty if none.
  std::string commit(const Commit& commit) {
    std::vector<std::uint64_t> weights = weights_.back();
    for (std::size_t piece = 0; piece < weights.size() && commit.verdict.finite; ++piece) {
      std::uint64_t sum = 0;
      for (const Share& share : commit.shares) {
        for (const std::int64_t index : indices_of(share.indices)) {
          sum += gradient_of(index, static_cast<std::int64_t>(piece));
        }
      }
      weights[piece] = next_weight(weights[piece], sum);
    }
    weights_.push_back(std::move(weights));
    const std::size_t members = commit.holders.size() + commit.stragglers.size();
    holders_.push_back(commit.holders);
    if (commit.holders.size() < (std::min)(members, (std::max)(std::size_t{2}, members / 2 + 1))) {
      return concat("durability: a round is committed that ", commit.holders.size(), " of ", members, " hold");
    }
    for (const Share& share : commit.shares) {
      for (const std::int64_t index : indices_of(share.indices)) {
        if (commit.verdict.finite && !once_.insert(index).second) {
          return concat("once: micro-batch ", index, " is committed twice");
        }
      }
    }
    return {};
  }

  /// Forgets the rounds from `rounds` on, as `ledger` has them.
  void roll_back(std::int64_t rounds, const Ledger& ledger) {
    for (auto round = static_cast<std::size_t>(rounds); round < holders_.size(); ++round) {
      for (const Share& share : ledger.rounds()[round].shares) {
        for (const std::int64_t index : indices_of(share.indices)) once_.erase(index);
      }
    }
    weights_.resize(static_cast<std::size_t>(rounds) + 1);
    holders_.resize(static_cast<std::size_t>(rounds));
  }

  /// Returns the weights that the ledger's micro-batches give in these rounds.
  [[nodiscard]] const std::vector<std::uint64_t>& weights_after(std::int64_t rounds) const& {
    return weights_[static_cast<std::size_t>(rounds)];
  }
  void weights_after(std::int64_t rounds) const&& = delete;
  /// Returns the peers that had the last round when it was committed.
  [[nodiscard]] const std::vector<PeerId>& holders_of_last() const& { return holders_.back(); }
  void holders_of_last() const&& = delete;

private:
  std::vector<std::vector<std::uint64_t>> weights_;  // by rounds
  std::vector<std::vector<PeerId>> holders_;         // by round
  std::set<std::int64_t> once_;
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
