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

/// The activity of a queue (lane) during a trace span. `wait` is time in which the queue had work but could not
/// continue; neither `wait` nor `other` counts as busy.
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

/// Returns the time of the steady clock in seconds. All processes of one machine share its origin; clocks of
/// other machines differ by an offset, which the caller that merges recordings supplies.
inline Seconds now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// An interned name of a span: an index into Recording::names.
enum class Name : std::uint32_t {};

/// The role of a trace span in its message: the span sends the message, receives it, or, in a collective, meets all
/// other ranks that take part.
enum class Role : std::uint8_t { none, sends, receives, meets };

inline constexpr std::size_t role_count = 4;

/// The links of a trace span to other spans. A number that is 0 means no link.
struct Links {
  /// Number of the message that the span belongs to, equal on all ranks that take part in it.
  std::uint64_t message = 0;
  std::uint32_t id = 0;     ///< number of this span among those of its rank (Sink::ids)
  std::uint32_t cause = 0;  ///< id of the last span that the queue waited for before this one began
  Role role = Role::none;   ///< role of the span in the message: sender, receiver, ...
};

/// One activity of one queue (lane) in a trace, from `begin` to `end` in seconds, with its links to other spans.
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

/// The trace spans of one rank: plain data that a rank can send to another (encode, decode). `limit` bounds the number
/// of spans: when more arrive, the oldest are removed and counted in `dropped`, with the spans for which a track had no
/// room.
///
/// `limit` bounds the number of spans: when more arrive, the oldest are removed and counted in `dropped`, with
/// the spans for which a track had no room.
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
