#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/core/ledger.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE Dealing::Dealing(std::vector<PeerId> members, std::vector<std::int64_t> holes, std::int64_t next,
                             const std::map<std::int64_t, PeerId>& failed)
    : members_(std::move(members)) {
  order_.next = next;
  std::vector<std::pair<std::int64_t, const PeerId*>> again;
  for (const std::int64_t index : holes) {
    const auto found = failed.find(index);
    if (found == failed.end() || members_.size() < 2) {
      order_.holes.push_back(index);
    } else {
      again.emplace_back(index, &found->second);
    }
  }
  // Each place is for the first one left that has not failed with its member, else for an index that has not failed.
  std::size_t plain = 0;
  while (!again.empty()) {
    const PeerId& member = members_[order_.first.size() % members_.size()];
    const auto other = std::find_if(again.begin(), again.end(), [&](const auto& one) { return *one.second != member; });
    if (other != again.end()) {
      order_.first.push_back(other->first);
      again.erase(other);
    } else {
      order_.first.push_back(plain < order_.holes.size() ? order_.holes[plain++] : order_.next++);
    }
  }
  order_.holes.erase(order_.holes.begin(), order_.holes.begin() + static_cast<std::ptrdiff_t>(plain));
}

REEF_INLINE std::optional<std::int64_t> Dealing::index_of(const PeerId& peer, std::int64_t k) const {
  const auto found = std::find(members_.begin(), members_.end(), peer);
  if (found == members_.end()) return std::nullopt;
  std::int64_t at = (found - members_.begin()) + k * static_cast<std::int64_t>(members_.size());
  const auto first = static_cast<std::int64_t>(order_.first.size());
  if (at < first) return order_.first[static_cast<std::size_t>(at)];
  at -= first;
  const auto holes = static_cast<std::int64_t>(order_.holes.size());
  return at < holes ? order_.holes[static_cast<std::size_t>(at)] : order_.next + (at - holes);
}

REEF_INLINE std::optional<std::int64_t> Dealing::place_of(std::int64_t index) const {
  if (members_.empty() || index < 0) return std::nullopt;
  const auto first = static_cast<std::int64_t>(order_.first.size());
  if (index >= order_.next) return first + static_cast<std::int64_t>(order_.holes.size()) + (index - order_.next);
  const auto hole = std::lower_bound(order_.holes.begin(), order_.holes.end(), index);
  if (hole != order_.holes.end() && *hole == index) return first + (hole - order_.holes.begin());
  const auto found = std::find(order_.first.begin(), order_.first.end(), index);
  if (found == order_.first.end()) return std::nullopt;
  return found - order_.first.begin();
}

REEF_INLINE std::optional<std::int64_t> Dealing::turn_of(std::int64_t index) const {
  const std::optional<std::int64_t> place = place_of(index);
  return place ? std::optional(*place / static_cast<std::int64_t>(members_.size())) : std::nullopt;
}

REEF_INLINE const PeerId* Dealing::taker_of(std::int64_t index) const& {
  const std::optional<std::int64_t> place = place_of(index);
  if (!place) return nullptr;
  return &members_[static_cast<std::size_t>(*place % static_cast<std::int64_t>(members_.size()))];
}

REEF_INLINE std::vector<PeerId> Ledger::Round::contributors() const {
  std::vector<PeerId> ids;
  ids.reserve(shares.size());
  for (const Share& share : shares) ids.push_back(share.id);
  return ids;
}

REEF_INLINE std::int64_t Ledger::Round::micro_batches() const {
  std::int64_t count = 0;
  for (const Share& share : shares) {
    for (const IndexRun& run : share.indices) count += share.finite ? run.count : 0;
  }
  return count;
}

REEF_INLINE std::string Ledger::refusal(std::span<const Share> shares) const {
  std::vector<std::int64_t> all;
  for (const Share& share : shares) {
    std::vector<std::int64_t> indices;
    try {
      indices = indices_of(share.indices);
    } catch (const DecodeError& error) {
      return error.what();
    }
    for (const std::int64_t index : indices) {
      if (now_.committed.contains(index)) return concat("micro-batch ", index, " is committed already");
      if (now_.quarantined.contains(index)) return concat("micro-batch ", index, " is quarantined");
    }
    all.insert(all.end(), indices.begin(), indices.end());
    if (static_cast<std::int64_t>(all.size()) > max_indices_of_round) return "more micro-batches than a round has";
  }
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  return twice == all.end() ? std::string() : concat("micro-batch ", *twice, " is in two shares");
}

REEF_INLINE Ledger::Ledger(std::int64_t rounds, Account settled, IndexSet withdrawn, std::vector<Round> later)
    : withdrawn_(std::move(withdrawn)),
      settled_rounds_(rounds),
      settled_(std::move(settled)),
      forgotten_(rounds),
      rounds_(std::move(later)) {
  count_again();
}

REEF_INLINE void Ledger::commit(std::int64_t round, std::vector<Share> shares, bool applied) {
  rounds_.push_back({round, std::move(shares), applied});
  add(now_, rounds_.back());
}

REEF_INLINE void Ledger::add(Account& account, const Round& round) {
  // In ascending order, in which a set grows at its end.
  std::vector<std::int64_t> good;
  for (const Share& share : round.shares) {
    for (const std::int64_t index : indices_of(share.indices)) {
      if (round.applied && share.finite) {
        good.push_back(index);
      } else if (!account.failed.try_emplace(index, share.id).second) {
        account.failed.erase(index);
        account.quarantined.add(index);
      }
    }
  }
  std::sort(good.begin(), good.end());
  for (const std::int64_t index : good) {
    account.committed.add(index);
    account.failed.erase(index);
  }
}

REEF_INLINE void Ledger::count_again() {
  now_ = settled_;
  for (const Round& round : rounds_) {
    if (round.round >= settled_rounds_) add(now_, round);
  }
  for (const auto& [begin, end] : withdrawn_.ranges()) {
    for (std::int64_t index = begin; index < end; ++index) {
      now_.quarantined.add(index);
      now_.failed.erase(index);
    }
  }
}

REEF_INLINE void Ledger::settle(std::int64_t rounds) {
  settled_ = account_of(rounds);
  settled_rounds_ = (std::max)(rounds, settled_rounds_);
}

REEF_INLINE Ledger::Account Ledger::account_of(std::int64_t rounds) const {
  Account account = settled_;
  for (const Round& round : rounds_) {
    if (round.round >= settled_rounds_ && round.round < rounds) add(account, round);
  }
  return account;
}

REEF_INLINE void Ledger::forget(std::int64_t rounds) {
  const auto end = std::find_if(rounds_.begin(), rounds_.end(), [&](const Round& round) {
    return round.round >= (std::min)(rounds, settled_rounds_);
  });
  for (auto round = rounds_.begin(); round != end; ++round) {
    for (const Share& share : round->shares) {
      Tally& tally = tallies_[share.id];
      if (!round->applied || !share.finite || share.indices.empty()) continue;
      ++tally.rounds;
      tally.micro_batches += count_of(share.indices);
    }
  }
  forgotten_ += end - rounds_.begin();
  rounds_.erase(rounds_.begin(), end);
}

REEF_INLINE const Ledger::Round* Ledger::round(std::int64_t number) const& {
  const std::int64_t at = number - forgotten_;
  if (at < 0 || at >= static_cast<std::int64_t>(rounds_.size())) return nullptr;
  return &rounds_[static_cast<std::size_t>(at)];
}

REEF_INLINE void Ledger::roll_back(std::int64_t rounds) {
  while (!rounds_.empty() && rounds_.back().round >= rounds) rounds_.pop_back();
  count_again();
}

REEF_INLINE std::string Ledger::quarantine(std::span<const IndexRun> runs) {
  std::vector<std::int64_t> indices;
  try {
    indices = indices_of(runs);
  } catch (const DecodeError& error) {
    return error.what();
  }
  for (const std::int64_t index : indices) {
    if (now_.committed.contains(index)) return concat("micro-batch ", index, " is committed already");
  }
  for (const std::int64_t index : indices) {
    now_.quarantined.add(index);
    withdrawn_.add(index);
    now_.failed.erase(index);
  }
  return {};
}

REEF_INLINE std::int64_t Ledger::end() const {
  const std::int64_t failed = now_.failed.empty() ? 0 : now_.failed.rbegin()->first + 1;
  return (std::max)({now_.committed.end(), now_.quarantined.end(), failed});
}

REEF_INLINE std::vector<std::int64_t> Ledger::holes() const {
  std::vector<std::int64_t> holes;
  const auto open_until = [&](std::int64_t from, std::int64_t until) {
    for (std::int64_t index = from; index < until; ++index) {
      if (!now_.quarantined.contains(index)) holes.push_back(index);
    }
  };
  std::int64_t from = 0;
  for (const auto& [begin, until] : now_.committed.ranges()) {
    open_until(from, begin);
    from = until;
  }
  open_until(from, end());
  return holes;
}

REEF_INLINE Dealing Ledger::deal(std::vector<PeerId> members) const {
  return {std::move(members), holes(), end(), now_.failed};
}

REEF_INLINE Ledger::Place Ledger::place_of(std::int64_t index) const {
  if (now_.quarantined.contains(index)) return {Place::Kind::quarantined, -1, {}};
  if (!now_.committed.contains(index)) return {};
  for (const Round& round : rounds_) {
    for (const Share& share : round.shares) {
      for (const IndexRun& run : share.indices) {
        const std::int64_t beyond = index - run.first;
        if (beyond >= 0 && beyond % run.stride == 0 && beyond / run.stride < run.count) {
          return {Place::Kind::committed, round.round, share.id};
        }
      }
    }
  }
  return {Place::Kind::committed, -1, {}};
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
