#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include <reef/comm/collectives.hpp>
#include <reef/comm/detail/progress_engine.hpp>
#include <reef/comm/shared_counter.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE SharedCounter::SharedCounter(Progress& progress, const std::string& name, const CounterState& from)
    : progress_(&progress),
      queue_(&progress.queue("counter " + name)),
      desk_(progress.rank() == 0 ? &progress.engine_->claim_desk(name) : nullptr),
      claim_(name) {
  reset(from);
}

REEF_INLINE SharedCounter::~SharedCounter() {
  if (claim_.in_flight()) progress_->engine_->outlast(claim_);  // else the Progress object may be gone
}

REEF_INLINE bool CounterState::is_valid() const {
  const bool rises =
      std::adjacent_find(unused.begin(), unused.end(), std::greater_equal<>{}) == unused.end();
  return rises && (unused.empty() || unused.back() < next);
}

REEF_INLINE std::uint64_t SharedCounter::next() {
  if (held_.empty()) fetch();
  const std::uint64_t number = held_.front();
  held_.pop_front();
  if (held_.empty() && desk_ == nullptr) claim();
  return number;
}

REEF_INLINE CounterState SharedCounter::state() {
  settle();
  // Once all are here no claim is in flight: rank 0 may say what comes next.
  const std::vector<std::uint64_t> counts = gather({held_.size()}, one_each());
  std::vector<std::int64_t> offsets{0, 1 + static_cast<std::int64_t>(counts[0])};
  for (std::size_t rank = 1; rank < counts.size(); ++rank) {
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(counts[rank]));
  }
  std::vector<std::uint64_t> mine(held_.begin(), held_.end());
  if (desk_ != nullptr) mine.insert(mine.begin(), desk_->next());
  const std::vector<std::uint64_t> all = gather(mine, std::move(offsets));
  CounterState state{all.front(), {all.begin() + 1, all.end()}};
  std::sort(state.unused.begin(), state.unused.end());
  return state;
}

REEF_INLINE void SharedCounter::reset(const CounterState& from) {
  settle();
  check_state(from);
  held_.clear();
  if (desk_ != nullptr) desk_->restart(from.next);
  const auto ranks = static_cast<std::size_t>(progress_->size());
  for (auto i = static_cast<std::size_t>(progress_->rank()); i < from.unused.size(); i += ranks) {
    held_.push_back(from.unused[i]);
  }
  gather({0}, one_each());  // nobody asks before rank 0 counts from there
}

REEF_INLINE void SharedCounter::fetch() {
  if (desk_ != nullptr) {
    progress_->throw_failure();
    held_.push_back(desk_->take());
    return;
  }
  if (!claiming_) claim();
  settle();
}

REEF_INLINE void SharedCounter::claim() {
  progress_->submit(*queue_, claim_);
  claiming_ = true;
}

REEF_INLINE void SharedCounter::settle() {
  if (!claiming_) return;
  progress_->wait(claim_);
  claiming_ = false;
  held_.push_back(claim_.number());
}

REEF_INLINE void SharedCounter::check_state(const CounterState& state) {
  Hash hash;
  hash.add(state.next);
  for (const std::uint64_t number : state.unused) hash.add(number);
  const std::vector<std::uint64_t> hashes = gather({hash.value()}, one_each());
  const auto refuse = [this](const char* why) {
    throw OptionError("reef::comm::SharedCounter: '", claim_.name(), "' ", why);
  };
  if (std::adjacent_find(hashes.begin(), hashes.end(), std::not_equal_to<>{}) != hashes.end()) {
    refuse(
        "is to go on from states that differ from rank to rank.\n  fix: give all ranks the "
        "state that state() told all of them.");
  }
  if (!state.is_valid()) {
    refuse(
        "cannot go on from a state whose unused numbers do not rise, or reach `next`.\n  why: "
        "a number would be given twice.\n  fix: give the state that state() told.");
  }
}

REEF_INLINE std::vector<std::uint64_t> SharedCounter::gather(const std::vector<std::uint64_t>& mine,
                                                             std::vector<std::int64_t> offsets) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(offsets.back()));
  AllGatherTask<std::uint64_t> task(claim_.name(), mine, all, std::move(offsets));
  progress_->submit(*queue_, task);
  progress_->wait(task);
  return all;
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
