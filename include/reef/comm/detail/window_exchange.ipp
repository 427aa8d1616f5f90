#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include <reef/comm/detail/window_exchange.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE void WindowExchange::start(const Station& station, const ExchangePlan& plan,
                                       const Header& prototype, Kind kind, std::string_view name) {
  station_ = &station;
  plan_ = &plan;
  kind_ = kind;
  channel_ = station.window;
  const auto room = static_cast<std::int64_t>(channel_->slot_bytes() / plan.element);
  // Parts begin on cache lines, also of fp32.
  const std::int64_t part = plan.reduce ? room / station.size() : room;
  pieces_ = {&plan, std::max<std::int64_t>(1, part >= 16 ? part / 16 * 16 : part)};
  rounds_ = static_cast<std::uint64_t>(pieces_.most());
  base_ = channel_->rounds;
  channel_->rounds += rounds_;
  in_ = folded_ = out_ = 0;
  sources_.resize(static_cast<std::size_t>(station.size()));
  label_ = label_of(prototype, plan, name);
}

REEF_INLINE bool WindowExchange::advance() {
  bool moved = false;
  if (in_ < rounds_ && slots_free()) {
    copy_in();
    moved = true;
  }
  if (plan_->reduce && folded_ < in_ && all_at(&WindowBoard::arrived, folded_)) {
    fold();
    moved = true;
  }
  const bool open = plan_->gather && out_ < (plan_->reduce ? folded_ : in_);
  if (open && all_at(plan_->reduce ? &WindowBoard::folded : &WindowBoard::arrived, out_)) {
    copy_out();
    moved = true;
  }
  return moved;
}

REEF_INLINE void WindowExchange::missing(std::vector<int>& ranks) const {
  const auto behind = [&](Counter counter, std::uint64_t wanted) {
    channel_->behind(ranks, station_->position, counter, wanted);
  };
  behind(&WindowBoard::arrived, base_ + (plan_->reduce ? folded_ : out_) + 1);
  if (ranks.empty() && plan_->reduce) behind(&WindowBoard::folded, base_ + out_ + 1);
  if (ranks.empty()) behind(&WindowBoard::done, base_ + in_);
}

REEF_INLINE std::byte* WindowExchange::part(int position, std::uint64_t round, int shard) const {
  const Bytes stride = static_cast<Bytes>(pieces_.elements) * plan_->element;
  return channel_->slot(position, base_ + round) +
         (plan_->reduce ? static_cast<Bytes>(shard) * stride : 0);
}

REEF_INLINE bool WindowExchange::slots_free() const {
  const std::uint64_t round = base_ + in_;
  return round < 2 || channel_->all_at(&WindowBoard::done, round - 1);
}

REEF_INLINE bool WindowExchange::all_at(Counter counter, std::uint64_t round) const {
  if (!channel_->all_at(counter, base_ + round + 1)) return false;
  for (int position = 0; position < station_->size(); ++position) {
    channel_->check_label(position, (base_ + round) % 2, label_, kind_);
  }
  return true;
}

REEF_INLINE void WindowExchange::copy_in() {
  Bytes bytes = 0;
  const auto round = static_cast<std::int64_t>(in_);
  for (int shard = 0; shard < station_->size(); ++shard) {
    // To reduce, what the others own; to gather, what I own.
    if ((shard == station_->position) == plan_->reduce) continue;
    const Bytes size = pieces_.bytes(shard, round);
    if (size == 0) continue;
    std::memcpy(part(station_->position, in_, shard), plan_->input_at(pieces_.at(shard, round)),
                size);
    bytes += size;
  }
  mine().labels[(base_ + in_) % 2] = label_;
  station_->count_window(kind_, bytes);
  ++in_;
  mine().arrived.store(base_ + in_, std::memory_order_release);
}

REEF_INLINE void WindowExchange::fold() {
  const int own = station_->position;
  const auto round = static_cast<std::int64_t>(folded_);
  const std::int64_t count = pieces_.count(own, round);
  if (count > 0) {
    const Bytes place = pieces_.at(own, round);
    for (int position = 0; position < station_->size(); ++position) {
      sources_[static_cast<std::size_t>(position)] =
          position == own ? static_cast<const void*>(plan_->input_at(place))
                          : static_cast<const void*>(part(position, folded_, own));
    }
    plan_->fold(plan_->output_at(place), sources_, count);
    if (plan_->gather) {
      const Bytes size = pieces_.bytes(own, round);
      std::memcpy(part(own, folded_, own), plan_->output_at(place), size);
      station_->count_window(kind_, size);
    }
    if (plan_->on_folded) {
      plan_->on_folded(round * pieces_.elements, round * pieces_.elements + count);
    }
  }
  ++folded_;
  mine().folded.store(base_ + folded_, std::memory_order_release);
  publish();
}

REEF_INLINE void WindowExchange::copy_out() {
  const auto round = static_cast<std::int64_t>(out_);
  for (int shard = 0; shard < station_->size(); ++shard) {
    const Bytes size = pieces_.bytes(shard, round);
    const bool own = shard == station_->position;
    if (size == 0 || (own && plan_->reduce)) continue;
    std::byte* const to = plan_->output_at(pieces_.at(shard, round));
    if (own && to == plan_->input_at(pieces_.at(shard, round))) continue;
    std::memcpy(to, part(shard, out_, shard), size);
  }
  ++out_;
  publish();
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
