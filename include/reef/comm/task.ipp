#pragma once

#include <string_view>

#include <reef/comm/task.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE bool Task::in_flight() const {
  const State state = state_.load(std::memory_order_acquire);
  return state == State::queued || state == State::running;
}

REEF_INLINE Task::Task(Kind kind, std::string name, std::optional<Group> group)
    : name_(std::move(name)), kind_(kind), group_(std::move(group)) {
  if (group_) group_->validate();
  operation_ = group_ ? operation_id(kind, name_, *group_) : operation_id(kind, name_);
}

REEF_INLINE Header Task::header(const detail::Station& station, std::uint32_t piece,
                                Bytes bytes) const {
  return Header::of(operation_, station.sequence, bytes, piece, codec_);
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
