#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <reef/comm/meter.hpp>
#include <reef/core/group.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/transfer.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The direction of a message in a training step (activation, gradient, ...). `none`: the message belongs to no
/// pipeline.
using Direction = Traffic;

/// The position of a transfer in a training job (step, micro-batch, ...), carried by its messages; the receiver accepts
/// no message of another.
///
/// | plan        | the number of the running program, equal on all ranks; 0: no program               |
/// | step        | the number of steps that were committed before; 0 in an evaluation                 |
/// | round       | the number of rounds that this program has begun, including evaluations and        |
/// |             | skipped steps                                                                      |
/// | edge        | the index of the pipeline's edge; for tied parameters, of the use or the parameter |
/// | micro_batch | the sender's micro-batch, counted from 0; `nothing`: the transfer belongs to none  |
struct Origin {
  static constexpr std::uint32_t nothing = 0xffffffff;

  std::uint64_t plan = 0;
  std::uint32_t step = 0;
  std::uint32_t round = 0;
  std::uint32_t edge : 24 = 0;
  Direction direction : 8 = Direction::none;
  std::uint32_t micro_batch = nothing;

  friend constexpr bool operator==(const Origin&, const Origin&) = default;
};

/// The header in front of every payload, in the same MPI message. The receiver knows the
/// header that it expects: it accepts a message only if every field is as expected (examine).
///
/// | magic     | "RF"; a message with another value is not one of Reef                             |
/// | version   | the version of this format; another one is refused, whatever its other fields are |
/// | codec     | the number of the payload's encoding, on which both ends agree (Task::set_codec); |
/// |           | 0: the payload is not encoded                                                     |
/// | sequence  | the number of this use of the operation (point to point), or of the queue by all  |
/// |           | ranks or by a group (collectives): so no message is accepted twice                |
/// | operation | operation_id(kind, name), or (kind, name, group)                                  |
/// | bytes     | the size of the payload that follows                                              |
/// | piece     | the index of this piece of the operation's data                                   |
/// | arrival   | on a shaped link: the arrival time in ns of the machine's steady clock; else 0    |
/// | origin    | for a transfer between stages: its place in the job                               |
/// | checksum  | CRC-32C of the payload, if the operation is point to point and                    |
/// |           | ProgressOptions::checksums; else 0                                                |
/// | seal      | CRC-32C of the 60 bytes before it                                                 |
struct Header {
  static constexpr std::uint16_t magic_number = 0x5246;
  static constexpr std::uint8_t current_version = 3;

  std::uint16_t magic = 0;
  std::uint8_t version = 0;
  std::uint8_t codec = 0;
  std::uint32_t sequence = 0;
  std::uint64_t operation = 0;
  std::uint32_t bytes = 0;
  std::uint32_t piece = 0;
  std::int64_t arrival = 0;
  Origin origin{};
  std::uint32_t checksum = 0;
  std::uint32_t seal = 0;

  /// Returns the header of a message in this version of the format, without its checksum (seal).
  static constexpr Header of(std::uint64_t operation, std::uint32_t sequence, Bytes bytes,
                             std::uint32_t piece = 0, std::uint8_t codec = 0) {
    Header header;
    header.magic = magic_number;
    header.version = current_version;
    header.codec = codec;
    header.sequence = sequence;
    header.operation = operation;
    header.bytes = static_cast<std::uint32_t>(bytes);
    header.piece = piece;
    return header;
  }

  [[nodiscard]] bool is_message() const { return magic == magic_number; }
};

static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

inline constexpr Bytes header_bytes = sizeof(Header);

/// The default of the most bytes of a piece: payloads are cut into pieces, and each is sent as a message of its own.
inline constexpr Bytes default_piece_bytes = Bytes{1} << 20;

namespace detail {

/// Mixes the bits of a hash before it is truncated to few bits.
constexpr std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

}  // namespace detail

/// Returns the name of a kind of operation that is equal at both ends: "transfer" for a send and its receive.
constexpr std::string_view role_of(Kind kind) {
  return kind == Kind::send || kind == Kind::receive ? "transfer" : name_of(kind);
}

/// Returns the number of an operation that messages carry, equal on every rank. A send and its receive are one
/// operation.
constexpr std::uint64_t operation_id(Kind kind, std::string_view name) {
  return Hash().add(role_of(kind)).add(name).value();
}

/// Returns the number of a collective of a group, which messages carry: its lower half depends on the group's name and
/// members.
std::uint64_t operation_id(Kind kind, std::string_view name, const Group& group);

/// Returns the name of an operation for texts and errors, such as "all-reduce 'loss' number 3".
std::string describe(Kind kind, std::string_view name, std::uint64_t sequence);

/// The reason for which a received message is rejected.
///
/// | foreign    | the message does not begin like one of Reef                                |
/// | version    | the message is in another version of the format                            |
/// | truncated  | the message ends within its header, or before its payload does             |
/// | longer     | the message is longer than its header says, or than the receiver's memory  |
/// | header     | the header is damaged: its seal does not match                             |
/// | unexpected | the message is undamaged, but not the one that is expected next            |
/// | payload    | the message is the expected one, but its payload's checksum does not match |
enum class Fault : std::uint8_t {
  none,
  foreign,
  version,
  truncated,
  longer,
  header,
  unexpected,
  payload
};

/// Returns the checksum (seal) of a message header whose other fields are set.
std::uint32_t seal_of(const Header& header);

/// A received header, and its fault. If there is a fault, `header` has only the fields that can be trusted:
/// for a message of another version the version, for a foreign, truncated or damaged message none.
struct Decoded {
  Header header{};
  Fault fault = Fault::none;
};

/// Reads the header of a message from its first bytes, 64 or fewer, and checks it: none of the bytes is trusted.
///
/// \code
/// // given: std::span<const std::byte> bytes
/// const comm::Decoded decoded = comm::decode_header(bytes);
/// const bool is_message = decoded.fault == comm::Fault::none;
/// \endcode
Decoded decode_header(std::span<const std::byte> bytes);

/// The relation of the bytes that the sender of a message sends to those that the receiver has room for.
///
/// | exact   | equal: both ends know the length in advance                                                    |
/// | at_most | at most: the sender sends the bytes that it has at the start, in as many messages as the whole |
/// |         | would need, the last of them perhaps empty. For encoded messages, whose length depends on data |
enum class Length : std::uint8_t { exact, at_most };

/// Returns the fault of a message whose header must be equal to `expected`, except
/// for its arrival, checksum and seal; `payload` is the bytes that follow `head`.
///
/// | checks | magic, version, seal, length, then each field, then the payload's checksum, if `checksummed` |
/// | length | if `at_most`, expected.bytes is an upper bound                                               |
Fault examine(const Header& expected, std::span<const std::byte> head,
              std::span<const std::byte> payload, bool checksummed, Length length = Length::exact);

/// Returns true if messages of operations of this kind, between two ranks, have a checksum of their payload.
/// Collectives have none.
constexpr bool has_checksum(Kind kind) { return kind == Kind::send || kind == Kind::receive; }

/// Returns the messages and bytes for a payload of `bytes` that is cut into pieces of at most `piece` bytes. An empty
/// payload sends nothing.
///
/// \code
/// const comm::Cost cost = comm::message_cost(3_MiB);  // 3 messages, 3 MiB and 192 bytes
/// \endcode
constexpr Cost message_cost(Bytes bytes, Bytes piece = default_piece_bytes) {
  const std::uint64_t messages = divide_up(bytes, piece);
  return {messages, bytes + messages * header_bytes, 0};
}

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/message.ipp>
#endif
