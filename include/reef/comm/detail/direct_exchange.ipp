#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <reef/comm/detail/direct_exchange.hpp>
#include <reef/comm/error.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE void DirectExchange::start(const Station& station, const ExchangePlan& plan,
                                       const Header& prototype, Kind kind, std::string_view name) {
  station_ = &station;
  plan_ = &plan;
  kind_ = kind;
  channel_ = station.window;
  pieces_ = {&plan, std::max<std::int64_t>(1, static_cast<std::int64_t>(piece / plan.element))};
  own_ = pieces_.of(station.position);
  rounds_ = pieces_.most();
  base_ = channel_->rounds;
  channel_->rounds += static_cast<std::uint64_t>(rounds_);
  announced_ = together_ = read_ = false;
  unreadable_ = -1;
  folded_ = 0;
  gathered_.assign(static_cast<std::size_t>(station.size()), 0);
  sources_.resize(static_cast<std::size_t>(station.size()));
  if (rounds_ == 0) return;
  prepare_staging();
  label_ = label_of(prototype, plan, name);
}

REEF_INLINE bool DirectExchange::advance() {
  if (rounds_ == 0 || read_) return false;
  if (!announced_) {
    // Who reads slots may be behind, and looks at labels.
    if (!channel_->all_at(&WindowBoard::done, base_)) return false;
    announce();
    announced_ = true;
  }
  if (!together_) {
    if (!channel_->all_at(&WindowBoard::arrived, base_ + 1)) return false;
    for (int position = 0; position < station_->size(); ++position) {
      channel_->check_label(position, 0, label_, kind_);
    }
    together_ = true;
  }
  bool moved = plan_->reduce ? fold() : keep();
  // Starting behind oneself spreads the readers over the owners.
  for (int step = 1; plan_->gather && step < station_->size(); ++step) {
    moved = gather((station_->position + step) % station_->size()) || moved;
  }
  if (folded_ == own_ && all_gathered() && all_still_there() && nobody_withdrew()) {
    read_ = moved = true;
    mine().done.store(end(), std::memory_order_release);
  }
  return moved;
}

REEF_INLINE void DirectExchange::missing(std::vector<int>& ranks) const {
  if (unreadable_ >= 0) {
    ranks.assign(1, station_->rank_of(unreadable_));  // whatever its counters say
    return;
  }
  if (!announced_) {
    channel_->behind(ranks, station_->position, &WindowBoard::done, base_);
    return;
  }
  channel_->behind(ranks, station_->position, &WindowBoard::arrived, base_ + 1);
  if (ranks.empty()) channel_->behind(ranks, station_->position, &WindowBoard::done, end());
}

REEF_INLINE void DirectExchange::announce() {
  const auto input = reinterpret_cast<std::uintptr_t>(plan_->input) - plan_->input_begin;
  const auto output = reinterpret_cast<std::uintptr_t>(plan_->output) - plan_->output_begin;
  label_.chunks = input;
  label_.shard = plan_->reduce ? output : input;
  Bytes given = 0;
  for (int shard = 0; shard < station_->size(); ++shard) {
    const bool own = shard == station_->position;
    if (own ? plan_->gather : plan_->reduce) {
      given += static_cast<Bytes>(plan_->length(shard)) * plan_->element;
    }
  }
  station_->count_window(kind_, given);
  mine().labels[0] = label_;
  mine().arrived.store(end(), std::memory_order_release);
}

REEF_INLINE void DirectExchange::prepare_staging() {
  std::int64_t longest = 0;
  for (int shard = 0; shard < station_->size(); ++shard) {
    longest = (std::max)(longest, plan_->length(shard));
  }
  longest = (std::min)(longest, pieces_.elements);
  stride_ = round_up(static_cast<Bytes>(longest) * plan_->element + line, page);
  const Bytes wanted = (plan_->reduce ? static_cast<Bytes>(station_->size()) : 1) * stride_ + page;
  if (station_->staging->size() < wanted) station_->staging->resize(wanted);
  const auto address = reinterpret_cast<std::uintptr_t>(station_->staging->data());
  staging_ = station_->staging->data() + (round_up(address, page) - address);
}

REEF_INLINE bool DirectExchange::readable(int position, int code) {
  if (code == 0) {
    if (unreadable_ == position) unreadable_ = -1;
    return true;
  }
  unreadable_ = position;
  // It withdraws before it frees anything.
  if (code == ESRCH || channel_->board(position).withdrawn.load() != 0) return false;
  throw MpiError("reef::comm: rank ", station_->rank_of(station_->position),
                 " cannot read the memory of rank ", station_->rank_of(position),
                 " any more: ", std::generic_category().message(code), " (errno ", code,
                 ").\n  why: its process changed its rights or its memory in the middle of a "
                 "collective.\n  fix: keep buffers until their task is complete, or set "
                 "ProgressOptions::read_peers to false.");
}

REEF_INLINE const std::byte* DirectExchange::stage(int position, std::uintptr_t from, Bytes bytes) {
  const Bytes row = plan_->reduce ? static_cast<Bytes>(position) : 0;
  std::byte* const to = staging_ + row * stride_ + from % line;
  return read(position, to, from, bytes) ? to : nullptr;
}

REEF_INLINE bool DirectExchange::fold() {
  if (folded_ == own_) return false;
  const int own = station_->position;
  const Bytes place = pieces_.at(own, folded_);
  const Bytes size = pieces_.bytes(own, folded_);
  for (int position = 0; position < station_->size(); ++position) {
    const std::byte* const chunk =
        position == own ? plan_->input_at(place)
                        : stage(position, channel_->board(position).labels[0].chunks + place, size);
    if (chunk == nullptr) return false;
    sources_[static_cast<std::size_t>(position)] = chunk;
  }
  const std::int64_t count = pieces_.count(own, folded_);
  plan_->fold(plan_->output_at(place), sources_, count);
  const std::int64_t begin = folded_ * pieces_.elements;
  if (plan_->on_folded) plan_->on_folded(begin, begin + count);
  ++folded_;
  mine().folded.store(base_ + static_cast<std::uint64_t>(folded_), std::memory_order_release);
  return true;
}

REEF_INLINE bool DirectExchange::keep() {
  if (folded_ == own_) return false;
  const Bytes place = pieces_.at(station_->position, 0);
  std::byte* const to = plan_->output_at(place);
  const std::byte* const from = plan_->input_at(place);
  if (to != from) {
    std::memcpy(to, from,
                static_cast<std::size_t>(plan_->length(station_->position)) * plan_->element);
  }
  folded_ = own_;
  return true;
}

REEF_INLINE bool DirectExchange::gather(int owner) {
  std::int64_t& next = gathered_[static_cast<std::size_t>(owner)];
  if (next == pieces_.of(owner)) return false;
  const WindowBoard& board = channel_->board(owner);
  if (plan_->reduce &&
      board.folded.load(std::memory_order_acquire) <= base_ + static_cast<std::uint64_t>(next)) {
    return false;
  }
  const Bytes place = pieces_.at(owner, next);
  const Bytes size = pieces_.bytes(owner, next);
  std::byte* const to = plan_->output_at(place);
  const std::uintptr_t from = board.labels[0].shard + place;
  if ((reinterpret_cast<std::uintptr_t>(to) - from) % line == 0) {
    if (!read(owner, to, from, size)) return false;
  } else {
    const std::byte* const staged = stage(owner, from, size);
    if (staged == nullptr) return false;
    std::memcpy(to, staged, size);
  }
  ++next;
  return true;
}

REEF_INLINE bool DirectExchange::all_gathered() const {
  if (!plan_->gather) return true;
  for (int position = 0; position < station_->size(); ++position) {
    const std::int64_t read = gathered_[static_cast<std::size_t>(position)];
    if (position != station_->position && read < pieces_.of(position)) return false;
  }
  return true;
}

REEF_INLINE bool DirectExchange::all_still_there() {
  for (int position = 0; position < station_->size(); ++position) {
    if (position == station_->position) continue;
    if (!readable(position, channel_->peers().probe(station_->rank_of(position)))) return false;
  }
  return true;
}

REEF_INLINE bool DirectExchange::nobody_withdrew() const {
  for (int position = 0; position < station_->size(); ++position) {
    if (channel_->board(position).withdrawn.fetch_add(0) != 0) return false;
  }
  return true;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
