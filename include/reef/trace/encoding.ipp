#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include <reef/core/inline.hpp>
#include <reef/io/checksum.hpp>
#include <reef/trace/encoding.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

namespace detail {

inline constexpr std::uint32_t recording_magic = 0x32525452;

// "RTR2"
inline constexpr std::size_t span_wire_bytes = 8 * 4 + 4 * 3 + 2 + 1 + 1;

/// Reads numbers and strings off the front of a message, and never beyond its end.
class WireReader {
public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T number(const char* what) {
    static_assert(std::is_trivially_copyable_v<T>);
    need(sizeof(T), what);
    T value{};
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }

  std::string text(const char* what) {
    const auto length = number<std::uint32_t>(what);
    need(length, what);
    std::string value(reinterpret_cast<const char*>(bytes_.data()), length);
    bytes_ = bytes_.subspan(length);
    return value;
  }

  /// A count of things of at least `each` bytes: refused if they cannot all be in the message, so
  /// that a lying count allocates nothing.
  std::size_t count(std::size_t each, const char* what) {
    const auto value = number<std::uint64_t>(what);
    if (value > bytes_.size() / each) refuse(what, "the message is too short for its count");
    return static_cast<std::size_t>(value);
  }

  void finish() const {
    if (!bytes_.empty()) refuse("end", concat(bytes_.size(), " bytes follow it"));
  }

  [[noreturn]] static void refuse(const std::string& what, const std::string& why) {
    throw DecodeError("reef::trace::decode: bad recording at its ", what, ": ", why,
                      ".\n  fix: both ranks must run the same version of Reef.");
  }

private:
  void need(std::size_t size, const char* what) const {
    if (bytes_.size() < size) refuse(what, "the message ends here");
  }

  std::span<const std::byte> bytes_;
};

inline void put_texts(std::vector<std::byte>& out, const std::vector<std::string>& texts) {
  put(out, static_cast<std::uint64_t>(texts.size()));
  for (const std::string& text : texts) {
    put(out, static_cast<std::uint32_t>(text.size()));
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
}

}  // namespace detail

REEF_INLINE std::vector<std::byte> encode(const Recording& recording) {
  std::vector<std::byte> out;
  out.reserve(64 + recording.spans.size() * detail::span_wire_bytes);
  detail::put(out, detail::recording_magic);
  detail::put(out, static_cast<std::int32_t>(recording.rank));
  detail::put(out, recording.dropped);
  detail::put_texts(out, recording.tracks);
  detail::put_texts(out, recording.names);
  detail::put(out, static_cast<std::uint64_t>(recording.spans.size()));
  for (const Span& span : recording.spans) {
    detail::put(out, span.begin);
    detail::put(out, span.end);
    detail::put(out, span.bytes);
    detail::put(out, span.message);
    detail::put(out, span.id);
    detail::put(out, span.cause);
    detail::put(out, static_cast<std::uint32_t>(span.name));
    detail::put(out, span.track);
    detail::put(out, static_cast<std::uint8_t>(span.activity));
    detail::put(out, static_cast<std::uint8_t>(span.role));
  }
  detail::put(out, io::crc32c(out));
  return out;
}

REEF_INLINE Recording decode(std::span<const std::byte> bytes) {
  using detail::WireReader;
  if (bytes.size() < sizeof(std::uint32_t)) WireReader::refuse("checksum", "the message ends here");
  const auto body = bytes.first(bytes.size() - sizeof(std::uint32_t));
  const auto checksum = WireReader(bytes.subspan(body.size())).number<std::uint32_t>("checksum");
  if (checksum != io::crc32c(body)) WireReader::refuse("checksum", "it does not match");
  WireReader in(body);
  if (in.number<std::uint32_t>("magic") != detail::recording_magic) {
    WireReader::refuse("magic", "this is no recording");
  }
  Recording recording;
  recording.rank = in.number<std::int32_t>("rank");
  recording.dropped = in.number<std::uint64_t>("count of dropped spans");
  for (auto* texts : {&recording.tracks, &recording.names}) {
    const std::size_t count = in.count(sizeof(std::uint32_t), "names");
    texts->reserve(count);
    for (std::size_t i = 0; i < count; ++i) texts->push_back(in.text("names"));
  }
  recording.spans.resize(in.count(detail::span_wire_bytes, "spans"));
  for (Span& span : recording.spans) {
    span.begin = in.number<double>("spans");
    span.end = in.number<double>("spans");
    span.bytes = in.number<std::uint64_t>("spans");
    span.message = in.number<std::uint64_t>("spans");
    span.id = in.number<std::uint32_t>("spans");
    span.cause = in.number<std::uint32_t>("spans");
    const auto name = in.number<std::uint32_t>("spans");
    span.track = in.number<std::uint16_t>("spans");
    const auto activity = in.number<std::uint8_t>("spans");
    const auto role = in.number<std::uint8_t>("spans");
    // 1e9 s bounds what the writers multiply into integers.
    if (!((std::abs)(span.begin) < 1e9) || !((std::abs)(span.end) < 1e9)) {
      WireReader::refuse("spans", "a time is no number, or out of range");
    }
    if (name >= recording.names.size() || span.track >= recording.tracks.size() ||
        activity >= activity_count || role >= role_count) {
      WireReader::refuse("spans", "an index is out of range");
    }
    span.name = static_cast<Name>(name);
    span.activity = static_cast<Activity>(activity);
    span.role = static_cast<Role>(role);
  }
  in.finish();
  return recording;
}

REEF_INLINE void shift(Recording& recording, Seconds offset) {
  for (Span& span : recording.spans) {
    span.begin += offset;
    span.end += offset;
  }
}

}  // namespace trace
}  // namespace v0
}  // namespace reef
