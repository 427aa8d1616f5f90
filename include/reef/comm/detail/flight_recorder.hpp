#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/comm/detail/clock.hpp>
#include <reef/comm/meter.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// The last operations of one rank, and those before them that are in flight yet, for the text of a
/// failure. Progress thread only; allocates nothing after its first round except for names that grow and
/// for more in flight than ever.
class FlightRecorder {
public:
  static constexpr std::size_t capacity = 12;

  /// Notes a start and returns the number under which `ended` knows it.
  std::uint64_t started(Kind kind, std::string_view name, std::uint64_t sequence,
                        std::string_view place, Bytes bytes);

  void ended(std::uint64_t number);

  /// One line per operation, the latest first; then those that are in flight for longer, the oldest first.
  [[nodiscard]] std::string text() const;

private:
  struct Entry {
    std::uint64_t number = 0;
    Kind kind = Kind::control;
    std::string name;
    std::string place;
    std::uint64_t sequence = 0;
    Bytes bytes = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  static std::string line(const Entry& entry);

  std::array<Entry, capacity> entries_;
  std::uint64_t count_ = 0;
  std::vector<Entry> older_;  // in flight: the first olds_; the rest is kept for its memory
  std::size_t olds_ = 0;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/flight_recorder.ipp>
#endif
