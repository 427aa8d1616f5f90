#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/comm/detail/clock.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/meter.hpp>
#include <reef/core/text.hpp>

namespace reef::inline v0::comm::detail {

/// The last operations of one rank, for the text of a failure. Progress thread only; allocates
/// nothing after its first round except for names that grow.
class FlightRecorder {
public:
  static constexpr std::size_t capacity = 12;

  /// Notes a start and returns the number under which `ended` knows it.
  std::uint64_t started(Kind kind, std::string_view name, std::uint64_t sequence,
                        std::string_view place, Bytes bytes) {
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

  void ended(std::uint64_t number) {
    if (number + capacity >= count_) entries_[number % capacity].end = now_ns();
  }

  /// One line per operation, the latest first.
  [[nodiscard]] std::string text() const {
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

private:
  struct Entry {
    Kind kind = Kind::control;
    std::string name;
    std::string place;
    std::uint64_t sequence = 0;
    Bytes bytes = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  std::array<Entry, capacity> entries_;
  std::uint64_t count_ = 0;
};

}  // namespace reef::inline v0::comm::detail
