#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include <reef/codec/message.hpp>
#include <reef/core/text.hpp>
#include <reef/io/checksum.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

inline constexpr std::uint32_t message_magic = 0x31436652;  // "RfC1"

/// As it lies in a message, on machines that are little-endian, as all are that Reef runs on.
struct RawHead {
  std::uint32_t magic;
  std::uint32_t codec;
  std::uint64_t parameter;
  std::uint64_t elements;
  std::uint32_t payload;
  std::uint32_t checksum;
};
static_assert(sizeof(RawHead) == message_head_bytes);

inline std::uint32_t checksum_of(std::span<const std::byte> message, const Threads& threads) {
  constexpr std::size_t part = std::size_t{1} << 18;
  const auto payload = message.subspan(message_head_bytes);
  std::uint32_t checksum = io::crc32c(message.first(offsetof(RawHead, checksum)));
  if (payload.size() <= part) return io::crc32c(payload, checksum);
  const auto bytes_of = [&](std::size_t i) {
    return payload.subspan(i * part, (std::min)(part, payload.size() - i * part));
  };
  std::vector<std::uint32_t> parts((payload.size() + part - 1) / part);
  threads(std::ssize(parts), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    parts[at] = io::crc32c(bytes_of(at));
  });
  for (std::size_t i = 0; i < parts.size(); ++i) checksum = io::crc32c_joined(checksum, parts[i], bytes_of(i).size());
  return checksum;
}

}  // namespace detail

REEF_INLINE std::span<const std::byte> message_in(std::span<const std::byte> room) {
  detail::RawHead raw{};
  if (room.size() < sizeof raw) return room;
  std::memcpy(&raw, room.data(), sizeof raw);
  return room.first(std::min<std::size_t>(room.size(), sizeof raw + raw.payload));
}

REEF_INLINE Bytes bounded_bytes(std::string_view name, std::int64_t n, Bytes said) {
  const Bytes most = max_message_bytes(n);
  if (said <= most) return said;
  throw OptionError("reef::codec: ", name, " says that ", n, " numbers take up to ", said,
                    " bytes.\n  why: a message takes at most ", most,
                    " bytes then, 20 for each number and 128, so that what is set aside follows from what is sent.\n"
                    "  fix: a codec whose encoded_bytes(n) is no more, as with smaller blocks or fewer columns.");
}

REEF_INLINE std::span<std::byte> begin_message(std::span<std::byte> message, const MessageHead& head,
                                               Bytes payload) {
  if (head.elements < 0 || head.elements > max_elements || payload > 0xffffffffU ||
      message.size() < message_head_bytes + payload) {
    const bool too_many = head.elements < 0 || head.elements > max_elements;
    const bool too_long = payload > 0xffffffffU;
    throw OptionError("reef::codec: a message of ", head.name, " for ", head.elements, " numbers takes ",
                      message_head_bytes + payload, " bytes: ", message_head_bytes, " of its head, and ", payload,
                      " of what they may come to. It is given ", message.size(), " bytes of room.\n  why: ",
                      too_many   ? concat("a message has at most ", max_elements, " numbers")
                      : too_long ? std::string("a head says at most 4294967295 bytes")
                                 : concat("that is ", message_head_bytes + payload - message.size(), " too few"),
                      ".\n  fix: ",
                      too_many || too_long ? "several messages."
                                           : "encoded_bytes(n) of room, of the codec as it is when it encodes.");
  }
  return message.subspan(message_head_bytes, payload);
}

REEF_INLINE Bytes seal_message(std::span<std::byte> message, const MessageHead& head, Bytes payload,
                               const Threads& threads) {
  const std::span<std::byte> whole = message.first(message_head_bytes + begin_message(message, head, payload).size());
  detail::RawHead raw{detail::message_magic, static_cast<std::uint32_t>(head.codec), head.parameter,
                      static_cast<std::uint64_t>(head.elements), static_cast<std::uint32_t>(payload), 0};
  std::memcpy(whole.data(), &raw, sizeof raw);
  raw.checksum = detail::checksum_of(whole, threads);
  std::memcpy(whole.data(), &raw, sizeof raw);
  return whole.size();
}

REEF_INLINE std::span<const std::byte> open_message(std::span<const std::byte> message,
                                                    const MessageHead& head, Bytes least_payload,
                                                    Bytes max_payload, const Threads& threads) {
  const auto refuse = [&](const auto&... what) {
    throw DecodeError("reef::codec: a message of ", head.name, " ", what...,
                      ".\n  state: nothing of it was decoded.\n  fix: the same codec and count on both ends; else "
                      "the message was damaged on its way.");
  };
  detail::RawHead raw{};
  if (message.size() < sizeof raw) refuse("has ", message.size(), " bytes, fewer than its head");
  std::memcpy(&raw, message.data(), sizeof raw);
  if (raw.magic != detail::message_magic) refuse("does not begin as one");
  if (raw.payload != message.size() - sizeof raw) {
    refuse("has ", message.size() - sizeof raw, " bytes behind its head, which says ", raw.payload);
  }
  if (raw.checksum != detail::checksum_of(message, threads)) refuse("is not as it was sent: its checksum differs");
  if (raw.codec != static_cast<std::uint32_t>(head.codec)) refuse("is of codec ", raw.codec);
  if (raw.parameter != head.parameter) {
    refuse("has the parameter ", raw.parameter, " where ", head.parameter, " is expected");
  }
  if (raw.elements != static_cast<std::uint64_t>(head.elements)) {
    refuse("has ", raw.elements, " numbers where ", head.elements, " are expected");
  }
  if (raw.payload < least_payload || raw.payload > max_payload) {
    refuse("has ", raw.payload, " bytes behind its head, where ", least_payload, " to ", max_payload, " are possible");
  }
  return message.subspan(sizeof raw);
}

REEF_INLINE Bytes message_bytes(std::span<const std::byte> bytes, std::string_view name) {
  detail::RawHead raw{};
  if (bytes.size() >= sizeof raw) std::memcpy(&raw, bytes.data(), sizeof raw);
  if (bytes.size() < sizeof raw || bytes.size() - sizeof raw < raw.payload) {
    throw DecodeError("reef::codec: a message in one of ", name, " says that it has ",
                      sizeof raw + std::size_t{raw.payload}, " bytes, of ", bytes.size(),
                      ".\n  state: nothing of it was decoded.\n"
                      "  fix: the same codec on both ends; its checksum is that of what was sent.");
  }
  return sizeof raw + Bytes{raw.payload};
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
