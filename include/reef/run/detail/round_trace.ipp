#pragma once

#include <utility>

#include <reef/core/inline.hpp>
#include <reef/run/detail/round_trace.hpp>

namespace reef {
inline namespace v0 {
namespace run::detail {

REEF_INLINE void RoundTrace::begin_round() {
  if (lanes_.sink != nullptr) former_ids_ = std::exchange(ids_, lanes_.sink->ids(table_.steps.size()));
  for (Loop& loop : table_.loops) loop.former_ids = std::exchange(loop.ids, 0);
}

REEF_INLINE void RoundTrace::end_round() {
  for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
    if (lanes_.tracks[lane] == nullptr) continue;
    Stamps& stamps = stamps_[lane];
    for (std::size_t k = 0; k < stamps.used; ++k) {
      const Stamp& stamp = stamps.list[k];
      if (stamp.end == 0) continue;
      const Step& step = table_.steps[stamp.instruction];
      lanes_.tracks[lane]->span(step.activity, step.name, stamp.begin, stamp.end, 0,
                                {.id = stamp.id, .cause = stamp.cause});
    }
    stamps.used = 0;
  }
}

REEF_INLINE std::uint32_t RoundTrace::id_of(std::size_t i, bool previous_round) const {
  const Step& step = table_.steps[i];
  const Loop* const loop = step.loop == schedule::no_loop ? nullptr : &table_.loops[step.loop];
  const std::uint32_t first = loop != nullptr ? (previous_round ? loop->former_ids : loop->ids)
                                              : (previous_round ? former_ids_ : ids_);
  if (first == 0) return 0;
  return first + static_cast<std::uint32_t>(i - (loop != nullptr ? loop->begin : 0));
}

REEF_INLINE RoundTrace::Stamp* RoundTrace::next_stamp(std::size_t lane) {
  if (lanes_.tracks[lane] == nullptr) return nullptr;
  Stamps& stamps = stamps_[lane];
  if (stamps.used == stamps.list.size()) stamps.list.emplace_back();
  Stamp& next = stamps.list[stamps.used++];
  next = {};
  return &next;
}

}  // namespace run::detail
}  // namespace v0
}  // namespace reef
