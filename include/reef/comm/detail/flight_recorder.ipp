#pragma once

#include <algorithm>
#include <utility>

#include <reef/comm/detail/flight_recorder.hpp>
#include <reef/comm/message.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE std::uint64_t FlightRecorder::started(Kind kind, std::string_view name,
                                                  std::uint64_t sequence, std::string_view place,
                                                  Bytes bytes) {
  Entry& entry = entries_[count_ % capacity];
  if (count_ >= capacity && entry.end == 0) {
    if (older_.size() == olds_) older_.emplace_back();
    std::swap(older_[olds_++], entry);
  }
  entry.number = count_;
  entry.kind = kind;
  entry.name.assign(name);
  entry.place.assign(place);
  entry.sequence = sequence;
  entry.bytes = bytes;
  entry.begin = now_ns();
  entry.end = 0;
  return count_++;
}

REEF_INLINE void FlightRecorder::ended(std::uint64_t number) {
  if (number + capacity >= count_) {
    entries_[number % capacity].end = now_ns();
    return;
  }
  const auto end = older_.begin() + static_cast<std::ptrdiff_t>(olds_);
  const auto old = std::find_if(older_.begin(), end,
                                [&](const Entry& entry) { return entry.number == number; });
  if (old != end) std::swap(*old, older_[--olds_]);
}

REEF_INLINE std::string FlightRecorder::text() const {
  if (count_ == 0) return "    no operation was started\n";
  std::string lines;
  for (std::uint64_t i = 0; i < capacity && i < count_; ++i) {
    lines += line(entries_[(count_ - 1 - i) % capacity]);
  }
  std::vector<const Entry*> olds;
  for (std::size_t i = 0; i < olds_; ++i) olds.push_back(&older_[i]);
  std::sort(olds.begin(), olds.end(),
            [](const Entry* a, const Entry* b) { return a->number < b->number; });
  for (std::size_t i = 0; i < olds_ && i < capacity; ++i) lines += line(*olds[i]);
  if (olds_ > capacity) lines += concat("    and ", olds_ - capacity, " more in flight\n");
  return lines;
}

REEF_INLINE std::string FlightRecorder::line(const Entry& entry) {
  const std::int64_t now = now_ns();
  const std::string text = concat("    ", describe(entry.kind, entry.name, entry.sequence), " in ",
                                  entry.place, ", ", format_bytes(entry.bytes));
  if (entry.end == 0) {
    return concat(text, ": in flight for ", format_seconds(to_seconds(now - entry.begin)), "\n");
  }
  return concat(text, ": done ", format_seconds(to_seconds(now - entry.end)), " ago, took ",
                format_seconds(to_seconds(entry.end - entry.begin)), "\n");
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
