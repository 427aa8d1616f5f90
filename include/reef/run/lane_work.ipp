#pragma once

#include <reef/core/inline.hpp>
#include <reef/run/lane_work.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE LaneWork::LaneWork(comm::Progress& progress, bool on_host)
    : all_(progress.occupations()), on_host_(on_host) {
  all_->add(*this);
}

REEF_INLINE LaneWork::~LaneWork() { all_->remove(*this); }

REEF_INLINE std::optional<comm::detail::Work> LaneWork::work() const {
  bool works = at_.load(std::memory_order_acquire);
  if (!on_host_) {
    const device::AnyEvent* const recorded = recorded_.load(std::memory_order_acquire);
    works = works || (recorded != nullptr &&
                      !recorded->ready(recorded_epoch_.load(std::memory_order_relaxed)));
  }
  if (!works) return {};
  const device::AnyEvent* const until = until_.load(std::memory_order_relaxed);
  if (until != nullptr && !until->ready(until_epoch_.load(std::memory_order_relaxed))) return {};
  return comm::detail::Work{*name_.load(std::memory_order_relaxed),
                            since_.load(std::memory_order_relaxed),
                            expected_.load(std::memory_order_relaxed)};
}

REEF_INLINE std::thread::id LaneWork::thread() const { return thread_.load(std::memory_order_relaxed); }

}  // namespace run
}  // namespace v0
}  // namespace reef
