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
/// The head of a codec's message, and the checks that a message passes before any of it is decoded.
///
///     0   "RfC1"                    4 bytes, which include the version
///     4   codec                     CodecId
///     8   parameter                 the codec's members as one number: a block, a flag
///     16  elements                  the count of numbers that the message decodes to
///     24  bytes of the payload      all bytes behind the head
///     28  CRC-32C                   of bytes 0 to 28, then of the payload
///
/// Numbers are little-endian.

namespace reef {
inline namespace v0 {
namespace codec {

/// The number that identifies a codec (message format) in messages; it is never given to another codec.
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

/// The largest number of elements in one message of a codec.
inline constexpr std::int64_t max_elements = std::int64_t{1} << 31;

/// Returns the largest size in bytes of a message of n numbers, in any codec with any members: 20 for each number, and
/// four heads, for messages within messages. A codec that asks for more is refused before memory is allocated.
inline constexpr Bytes max_message_bytes(std::int64_t n) { return 4 * message_head_bytes + 20 * static_cast<Bytes>(n); }

/// Returns `said`, the bytes that codec `name` needs for n numbers. Throws OptionError if it is above
/// max_message_bytes(n).
Bytes bounded_bytes(std::string_view name, std::int64_t n, Bytes said);

/// The fields of a codec message's head that sender and receiver know beforehand.
struct MessageHead {
  CodecId codec{};
  std::string_view name{};  ///< the codec's name, for errors
  std::uint64_t parameter = 0;
  std::int64_t elements = 0;
};

/// Returns the message at the beginning of `room`, of the length that its head states, or all of `room` if that is
/// shorter: for messages whose length depends on data. Reads nothing but the head.
std::span<const std::byte> message_in(std::span<const std::byte> room);

/// Returns the part of `message` behind its head, for a payload of `payload` bytes. Throws OptionError if `message` has
/// no room for head and payload, or head.elements is above max_elements.
std::span<std::byte> begin_message(std::span<std::byte> message, const MessageHead& head, Bytes payload);

/// Writes the head of a codec's message before a complete payload of `payload` bytes. Returns the bytes of head and
/// payload.
Bytes seal_message(std::span<std::byte> message, const MessageHead& head, Bytes payload, const Threads& threads = {});

/// Returns the payload of a message that was sealed with this head. Throws DecodeError, naming the difference, unless
/// every byte is as it was sealed, and the payload's size is within the bounds given.
///
/// \code
/// // given: std::span<const std::byte> message
/// const codec::MessageHead head{codec::CodecId::uniform8, "uniform8", 0, 100};  // what is awaited: 100 numbers
/// const std::span<const std::byte> payload = codec::open_message(message, head, 108, 108);
/// \endcode
std::span<const std::byte> open_message(std::span<const std::byte> message, const MessageHead& head,
                                        Bytes least_payload, Bytes max_payload, const Threads& threads = {});

/// Returns the length in bytes of the message at the beginning of `bytes`, as its head states it; nothing else is
/// checked. Throws DecodeError if `bytes` is shorter. `name`: the codec of the enclosing message, for errors.
Bytes message_bytes(std::span<const std::byte> bytes, std::string_view name);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/message.ipp>
#endif
