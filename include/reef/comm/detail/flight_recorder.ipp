#pragma once

#include <reef/comm/detail/flight_recorder.hpp>
#include <reef/comm/message.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef::inline v0::comm::detail {

REEF_INLINE std::uint64_t FlightRecorder::started(Kind kind, std::string_view name,
                                                  std::uint64_t sequence, std::string_view place,
                                                  Bytes bytes) {
  Entry& entry = entries_[count_ % capacity];
  entry.kind = kind;
  entry.name.assign(name);
  entry.place.assign(place);
  entry.sequence = sequence;
  entry.bytes = bytes;
  entry.begin = now_ns();
  entry.end = 0;
  return count_++;
}

REEF_INLINE std::string FlightRecorder::text() const {
  if (count_ == 0) return "    no operation was started\n";
  std::string lines;
  const std::int64_t now = now_ns();
  for (std::uint64_t i = 0; i < capacity && i < count_; ++i) {
    const Entry& entry = entries_[(count_ - 1 - i) % capacity];
    lines += concat("    ", describe(entry.kind, entry.name, entry.sequence), " in ", entry.place,
                    ", ", format_bytes(entry.bytes));
    if (entry.end == 0) {
      lines += concat(": in flight for ", format_seconds(to_seconds(now - entry.begin)), "\n");
    } else {
      lines += concat(": done ", format_seconds(to_seconds(now - entry.end)), " ago, took ",
                      format_seconds(to_seconds(entry.end - entry.begin)), "\n");
    }
  }
  return lines;
}

}  // namespace reef::inline v0::comm::detail
