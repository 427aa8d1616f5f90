#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/codec/threads.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

/// \file
/// What a codec's message begins with, and what is checked of it before any of it is believed.
///
///     0   "RfC1"                    4 bytes, and the version with them
///     4   codec                     CodecId
///     8   parameter                 what the codec's members come to: a block, a flag
///     16  elements                  numbers that it decodes to
///     24  bytes of the payload      all that comes behind the head
///     28  CRC-32C                   of bytes 0 to 28, then of the payload
///
/// Numbers are little-endian.

namespace reef {
inline namespace v0 {
namespace codec {

/// Of codecs, in messages: a number is never given away twice.
enum class CodecId : std::uint32_t {
  blockwise8 = 1,
  uniform8 = 2,
  normal_float4 = 3,
  top_k = 4,
  dense = 5,
  bf16 = 6,
  random_k = 7,
  chunk_top_k = 8,
  two_bit = 9,
  sign = 10,
  chain = 11,
  fp8 = 12,
  power_sgd = 13
};

inline constexpr Bytes message_head_bytes = 32;

/// The most numbers of one message.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 31;

/// The most bytes that a message of n numbers takes in any codec, whatever its members are: 20 for each, and four heads, for one in
/// another. A codec that says more is refused before there is room for it.
inline constexpr Bytes most_message_bytes(std::int64_t n) { return 4 * message_head_bytes + 20 * static_cast<Bytes>(n); }

/// The room that n numbers are given: what the codec says, if that is no more than most_message_bytes. Throws OptionError.
Bytes bounded_bytes(std::string_view name, std::int64_t n, Bytes said);

/// What both ends know of a message.
struct MessageHead {
  CodecId codec{};
  std::string_view name{};  ///< of the codec, for errors
  std::uint64_t parameter = 0;
  std::int64_t elements = 0;
};

/// The message at the beginning of so much room, as long as its head says, or all of it: for who has sent or decodes a message
/// whose length depends on data. Nothing else of it is looked at.
std::span<const std::byte> message_in(std::span<const std::byte> room);

/// Where the payload goes in a message of so many bytes behind its head. Throws OptionError for a message without room, or
/// more numbers than most_elements.
std::span<std::byte> begin_message(std::span<std::byte> message, const MessageHead& head, Bytes payload);

/// Writes the head before a payload that is there by now. Returns the bytes of both.
Bytes seal_message(std::span<std::byte> message, const MessageHead& head, Bytes payload, const Threads& threads = {});

/// The payload of a message that was sealed with such a head. Throws DecodeError, naming what differs, unless every byte is
/// as it was, and its payload has so many bytes.
///
/// \code
/// // given: std::span<const std::byte> message
/// const codec::MessageHead head{codec::CodecId::uniform8, "uniform8", 0, 100};  // what is awaited: 100 numbers
/// const std::span<const std::byte> payload = codec::open_message(message, head, 108, 108);
/// \endcode
std::span<const std::byte> open_message(std::span<const std::byte> message, const MessageHead& head,
                                        Bytes least_payload, Bytes most_payload, const Threads& threads = {});

/// How long the message is that these bytes begin with, by its head, of which nothing else is believed. Throws DecodeError
/// if there are fewer. `name`: of what it is in, for errors.
Bytes message_bytes(std::span<const std::byte> bytes, std::string_view name);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/message.ipp>
#endif
