#pragma once

#include <algorithm>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/core/ledger.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE std::optional<std::int64_t> Dealing::index_of(const PeerId& peer, std::int64_t k) const {
  const auto found = std::find(members_.begin(), members_.end(), peer);
  if (found == members_.end()) return std::nullopt;
  const std::int64_t at = (found - members_.begin()) + k * static_cast<std::int64_t>(members_.size());
  const auto holes = static_cast<std::int64_t>(holes_.size());
  return at < holes ? holes_[static_cast<std::size_t>(at)] : next_ + (at - holes);
}

REEF_INLINE const PeerId* Dealing::taker_of(std::int64_t index) const& {
  if (members_.empty() || index < 0) return nullptr;
  std::int64_t at = static_cast<std::int64_t>(holes_.size()) + (index - next_);
  if (index < next_) {
    const auto found = std::lower_bound(holes_.begin(), holes_.end(), index);
    if (found == holes_.end() || *found != index) return nullptr;
    at = found - holes_.begin();
  }
  return &members_[static_cast<std::size_t>(at % static_cast<std::int64_t>(members_.size()))];
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
    for (const IndexRun& run : share.indices) count += run.count;
  }
  return count;
}

REEF_INLINE std::string Ledger::refusal(std::span<const Share> shares) const {
  IndexSet seen;
  for (const Share& share : shares) {
    std::vector<std::int64_t> indices;
    try {
      indices = indices_of(share.indices);
    } catch (const DecodeError& error) {
      return error.what();
    }
    for (const std::int64_t index : indices) {
      if (committed_.contains(index)) return concat("micro-batch ", index, " is committed already");
      if (quarantined_.contains(index)) return concat("micro-batch ", index, " is quarantined");
      if (!seen.add(index)) return concat("micro-batch ", index, " is in two shares");
    }
  }
  return {};
}

REEF_INLINE void Ledger::commit(std::int64_t round, std::vector<Share> shares, bool applied) {
  IndexSet& to = applied ? committed_ : quarantined_;
  for (const Share& share : shares) {
    for (const std::int64_t index : indices_of(share.indices)) to.add(index);
  }
  rounds_.push_back({round, std::move(shares), applied});
}

REEF_INLINE void Ledger::roll_back(std::int64_t rounds) {
  while (!rounds_.empty() && rounds_.back().round >= rounds) {
    IndexSet& from = rounds_.back().applied ? committed_ : quarantined_;
    for (const Share& share : rounds_.back().shares) {
      for (const std::int64_t index : indices_of(share.indices)) from.remove(index);
    }
    rounds_.pop_back();
  }
}

REEF_INLINE std::string Ledger::quarantine(std::span<const IndexRun> runs) {
  std::vector<std::int64_t> indices;
  try {
    indices = indices_of(runs);
  } catch (const DecodeError& error) {
    return error.what();
  }
  for (const std::int64_t index : indices) {
    if (committed_.contains(index)) return concat("micro-batch ", index, " is committed already");
  }
  for (const std::int64_t index : indices) quarantined_.add(index);
  return {};
}

REEF_INLINE std::int64_t Ledger::end() const { return (std::max)(committed_.end(), quarantined_.end()); }

REEF_INLINE std::vector<std::int64_t> Ledger::holes() const {
  std::vector<std::int64_t> holes;
  std::int64_t from = 0;
  for (const auto& [begin, end] : committed_.ranges()) {
    for (std::int64_t index = from; index < begin; ++index) {
      if (!quarantined_.contains(index)) holes.push_back(index);
    }
    from = end;
  }
  return holes;
}

REEF_INLINE Dealing Ledger::deal(std::vector<PeerId> members) const {
  // Quarantined indices above the highest committed one are left out as well: they are holes of nobody.
  std::vector<std::int64_t> open = holes();
  for (std::int64_t index = committed_.end(); index < end(); ++index) {
    if (!quarantined_.contains(index)) open.push_back(index);
  }
  return {std::move(members), std::move(open), end()};
}

REEF_INLINE Ledger::Place Ledger::place_of(std::int64_t index) const {
  if (quarantined_.contains(index)) return {Place::Kind::quarantined, -1, {}};
  if (!committed_.contains(index)) return {};
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
  return {};
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
