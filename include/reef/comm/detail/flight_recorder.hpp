#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/comm/detail/clock.hpp>
#include <reef/comm/meter.hpp>

namespace reef::inline v0::comm::detail {

/// The last operations of one rank, for the text of a failure. Progress thread only; allocates
/// nothing after its first round except for names that grow.
class FlightRecorder {
public:
  static constexpr std::size_t capacity = 12;

  /// Notes a start and returns the number under which `ended` knows it.
  std::uint64_t started(Kind kind, std::string_view name, std::uint64_t sequence,
                        std::string_view place, Bytes bytes);

  void ended(std::uint64_t number) {
    if (number + capacity >= count_) entries_[number % capacity].end = now_ns();
  }

  /// One line per operation, the latest first.
  [[nodiscard]] std::string text() const;

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

#ifndef REEF_COMPILED
#include <reef/comm/detail/flight_recorder.ipp>
#endif
