#pragma once

#include <reef/comm/call_task.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE CallTask::~CallTask() {
  retire();
  job_.wait();
}

REEF_INLINE void CallTask::start(const detail::Station& station) {
  done_ = false;
  station.callback_thread->submit(job_);
}

REEF_INLINE bool CallTask::advance() {
  if (done_ || !job_.done()) return false;
  done_ = true;
  job_.rethrow();
  return true;
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
