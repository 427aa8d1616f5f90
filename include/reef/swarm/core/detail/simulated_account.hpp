#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
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

  /// Notes that the gradient of a micro-batch is not finite, whoever computes it.
  void poison(std::int64_t index) { poisoned_.insert(index); }
  [[nodiscard]] bool is_poisoned(std::int64_t index) const { return poisoned_.contains(index); }
  /// Returns the number of micro-batches that have failed.
  [[nodiscard]] std::int64_t retried() const { return static_cast<std::int64_t>(failures_.size()); }

  /// Notes a commit of a round that was dealt to so many peers, and what `ledger` made of it. Returns the law that it
  /// breaks; empty if none.
  std::string commit(const Commit& commit, std::size_t dealt, const Ledger& ledger) {
    std::vector<std::uint64_t> weights = weights_.back();
    for (std::size_t piece = 0; piece < weights.size() && commit.verdict.finite; ++piece) {
      std::uint64_t sum = 0;
      for (const Share& share : commit.shares) {
        if (!share.finite) continue;
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
        const bool counts = commit.verdict.finite && share.finite;
        if (counts && is_poisoned(index)) return concat("finite: micro-batch ", index, " is committed");
        if (counts && !once_.insert(index).second) {
          return concat("once: micro-batch ", index, " is committed twice");
        }
        if (counts) continue;
        std::vector<PeerId>& failures = failures_[index];
        failures.push_back(share.id);
        if (ledger.quarantined().contains(index) != (failures.size() == 2)) {
          return concat("retry: micro-batch ", index, " has failed ", failures.size(), " times");
        }
        if (dealt > 1 && failures.size() == 2 && failures[0] == failures[1]) {
          return concat("retry: micro-batch ", index, " has failed twice with ", to_text(share.id));
        }
      }
    }
    const auto twice =
        std::count_if(failures_.begin(), failures_.end(), [](const auto& one) { return one.second.size() > 1; });
    if (ledger.quarantined().count() != twice) return "retry: a micro-batch is quarantined that has not failed twice";
    return {};
  }

  /// Forgets the rounds from `rounds` on, as `ledger` has them.
  void roll_back(std::int64_t rounds, const Ledger& ledger) {
    for (auto round = static_cast<std::size_t>(rounds); round < holders_.size(); ++round) {
      for (const Share& share : ledger.rounds()[round].shares) {
        for (const std::int64_t index : indices_of(share.indices)) once_.erase(index);
      }
    }
    failures_.clear();
    for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round) {
      const Ledger::Round& record = ledger.rounds()[round];
      for (const Share& share : record.shares) {
        if (record.applied && share.finite) continue;
        for (const std::int64_t index : indices_of(share.indices)) failures_[index].push_back(share.id);
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
  std::set<std::int64_t> poisoned_;
  std::map<std::int64_t, std::vector<PeerId>> failures_;  // the peers with which an index has failed
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
