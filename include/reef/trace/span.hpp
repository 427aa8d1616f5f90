#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

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

/// What a span has to do with the message that it names. All ranks that take part in a collective
/// meet in it.
enum class Role : std::uint8_t { none, sends, receives, meets };

inline constexpr std::size_t role_count = 4;

/// What a span has to do with others. Zeros are none.
struct Links {
  std::uint64_t message = 0;  ///< the same number on all ranks that take part in it
  std::uint32_t id = 0;       ///< of this span, in its rank: Sink::ids
  std::uint32_t cause = 0;  ///< the id of what the lane waited for, last of all, before this began
  Role role = Role::none;   ///< in the message
};

/// One thing that one lane did, from `begin` to `end`, with the members of Links.
struct Span {
  Seconds begin;
  Seconds end;
  Bytes bytes;
  std::uint64_t message;
  std::uint32_t id;
  std::uint32_t cause;
  Name name;
  std::uint16_t track;
  Activity activity;
  Role role;
};

static_assert(std::is_trivially_copyable_v<Span> && sizeof(Span) == 48);

/// What one rank did: plain data that a rank can send to another (encode, decode).
///
/// `limit` bounds it: when more arrive, the oldest go and are counted in `dropped`, beside those
/// that a track had no room for.
///
/// \code
/// // given: const trace::Recording& recording
/// Seconds busy = 0;
/// for (const trace::Span& span : recording.spans) {
///   if (recording.name_of(span) == "forward") busy += span.end - span.begin;
/// }
/// \endcode
struct Recording {
  int rank = 0;
  std::vector<std::string> tracks;
  std::vector<std::string> names;
  std::vector<Span> spans;
  std::uint64_t dropped = 0;
  std::size_t limit = std::size_t{1} << 18;

  [[nodiscard]] std::string_view name_of(const Span& span) const& {
    return names.at(static_cast<std::size_t>(span.name));
  }
  [[nodiscard]] std::string name_of(const Span& span) const&& { return std::string(name_of(span)); }
};

}  // namespace trace
}  // namespace v0
}  // namespace reef
