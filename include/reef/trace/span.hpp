#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/core/units.hpp>

namespace reef::inline v0::trace {

/// What a lane was busy with. `wait` is time in which a lane had work but could not go on; neither
/// it nor `other` counts as busy.
enum class Activity : std::uint8_t { compute, communication, copy, wait, other };

inline constexpr std::size_t activity_count = 5;

constexpr std::string_view name_of(Activity activity) {
  switch (activity) {
    case Activity::compute: return "compute";
    case Activity::communication: return "communication";
    case Activity::copy: return "copy";
    case Activity::wait: return "wait";
    case Activity::other: return "other";
  }
  return "?";
}

/// Seconds on the steady clock. All processes of one machine share its origin; those of others
/// differ by an offset that whoever merges their recordings supplies.
inline Seconds now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// An interned name: an index into Recording::names.
enum class Name : std::uint32_t {};

/// One thing that one lane did, from `begin` to `end`.
///
/// A flow ties two spans, also of two ranks: one has the number as flow_out, the other as flow_in.
/// 0 is none.
struct Span {
  Seconds begin;
  Seconds end;
  Bytes bytes;
  std::uint64_t flow_in;
  std::uint64_t flow_out;
  Name name;
  std::uint16_t track;
  Activity activity;
};

static_assert(std::is_trivially_copyable_v<Span> && sizeof(Span) == 48);

/// What one rank did: plain data that a rank can send to another (encode, decode).
///
/// `limit` bounds it: when more arrive, the oldest go and are counted in `dropped`, beside those
/// that a track had no room for.
struct Recording {
  int rank = 0;
  std::vector<std::string> tracks;
  std::vector<std::string> names;
  std::vector<Span> spans;
  std::uint64_t dropped = 0;
  std::size_t limit = std::size_t{1} << 18;

  [[nodiscard]] std::string_view name_of(const Span& span) const {
    return names.at(static_cast<std::size_t>(span.name));
  }
};

}  // namespace reef::inline v0::trace
