#pragma once

#include <algorithm>

#include <reef/comm/detail/occupations.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE void Occupations::add(const Worker& worker) {
  const std::scoped_lock lock(mutex_);
  workers_.push_back(&worker);
}

REEF_INLINE void Occupations::remove(const Worker& worker) {
  const std::scoped_lock lock(mutex_);
  std::erase(workers_, &worker);
}

REEF_INLINE void Occupations::add(const OwnWork& own) {
  const std::scoped_lock lock(mutex_);
  own_.push_back(&own);
}

REEF_INLINE void Occupations::remove(const OwnWork& own) {
  const std::scoped_lock lock(mutex_);
  std::erase(own_, &own);
}

REEF_INLINE void Occupations::wait() {
  const std::scoped_lock lock(mutex_);
  waiting_.push_back(std::this_thread::get_id());
}

REEF_INLINE void Occupations::go_on() {
  const std::scoped_lock lock(mutex_);
  const auto own = std::find(waiting_.begin(), waiting_.end(), std::this_thread::get_id());
  if (own != waiting_.end()) waiting_.erase(own);
}

REEF_INLINE std::vector<Work> Occupations::work() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Work> all;
  for (const Worker* const worker : workers_) {
    auto work = worker->work();
    if (work && !waits(worker->thread())) all.push_back(std::move(*work));
  }
  for (const OwnWork* const own : own_) {
    if (!waits(own->thread())) all.push_back(own->work());
  }
  return all;
}

REEF_INLINE bool Occupations::waits() const {
  const std::scoped_lock lock(mutex_);
  return waits(owner_);
}

REEF_INLINE bool Occupations::is_waiting(std::thread::id thread) const {
  const std::scoped_lock lock(mutex_);
  return waits(thread);
}

REEF_INLINE std::string Occupations::text() const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  for (const OwnWork* const own : own_) {
    if (!own->reason().empty()) text += concat(reason_mark, own->reason(), "\n");
    if (waits(own->thread())) text += concat("    within: ", text_of(own->work()), "\n");
  }
  return text;
}

REEF_INLINE bool Occupations::waits(std::thread::id thread) const {
  return std::find(waiting_.begin(), waiting_.end(), thread) != waiting_.end();
}

REEF_INLINE std::string text_of(const Work& work) {
  std::string text =
      concat(work.what, ", since ", format_seconds(to_seconds(now_ns() - work.since)));
  if (work.expected > 0) text += concat(" (some ", format_seconds(work.expected), " are expected)");
  return text;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
