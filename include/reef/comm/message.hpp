#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <reef/comm/meter.hpp>
#include <reef/core/group.hpp>
#include <reef/core/hash.hpp>

namespace reef::inline v0::comm {

/// What stands in front of every payload, in the same MPI message.
///
/// | magic     | "RF2"; anything else is not from this version of Reef                     |
/// | codec     | what the payload is encoded by, a number that both ends agree on            |
/// |           | (Task::set_codec); 0: nothing, it is as in memory                           |
/// | sequence  | which use of the operation (point to point), or of the queue, there of the
/// |           | group (collectives)                                                       |
/// | operation | operation_id(kind, name), or (kind, name, group)                            |
/// | bytes     | of the payload that follows                                                |
/// | piece     | which piece of the operation                                               |
/// | arrival   | on a shaped link: when it arrives, ns of the machine's steady clock; else 0 |
struct Header {
  static constexpr std::uint32_t magic_number = 0x524632;

  std::uint32_t magic : 24 = 0;
  std::uint32_t codec : 8 = 0;
  std::uint32_t sequence = 0;
  std::uint64_t operation = 0;
  std::uint32_t bytes = 0;
  std::uint32_t piece = 0;
  std::int64_t arrival = 0;
};

static_assert(sizeof(Header) == 32 && std::is_trivially_copyable_v<Header>);

inline constexpr Bytes header_bytes = sizeof(Header);

/// Payloads are cut into pieces of at most this many bytes, each a message of its own.
inline constexpr Bytes default_piece_bytes = Bytes{1} << 20;

namespace detail {

/// Spreads a hash before it is cut down to few bits.
constexpr std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

}  // namespace detail

/// What both ends of an operation call it: a send and its receive are one.
constexpr std::string_view role_of(Kind kind) {
  return kind == Kind::send || kind == Kind::receive ? "transfer" : name_of(kind);
}

/// The same number on every rank for the same operation. A send and its receive are one operation.
constexpr std::uint64_t operation_id(Kind kind, std::string_view name) {
  return Hash().add(role_of(kind)).add(name).value();
}

/// That of a collective of a group: its lower half says which group of which members.
std::uint64_t operation_id(Kind kind, std::string_view name, const Group& group);

/// "all-reduce 'loss' number 3": how every text names an operation.
std::string describe(Kind kind, std::string_view name, std::uint64_t sequence);

/// What a payload of `bytes` costs as messages of at most `piece` bytes. Nothing sends nothing.
///
/// \code
/// const comm::Cost cost = comm::message_cost(3_MiB);  // 3 messages, 3 MiB and 96 bytes
/// \endcode
constexpr Cost message_cost(Bytes bytes, Bytes piece = default_piece_bytes) {
  const std::uint64_t messages = divide_up(bytes, piece);
  return {messages, bytes + messages * header_bytes, 0};
}

}  // namespace reef::inline v0::comm

#ifndef REEF_COMPILED
#include <reef/comm/message.ipp>
#endif
