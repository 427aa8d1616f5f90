#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/core/units.hpp>

/// \file
/// The frames that two peers of a swarm send each other over one connection: a header of 64 bytes, then a payload.
///
///     0   "RS", version, kind     2, 1, 1 bytes
///     4   sequence                the number of the frame on its connection and direction, from 0
///     8   bytes                   of the payload
///     12  checksum                CRC-32C of the payload
///     16  stream, piece           4 bytes each
///     24  round, epoch, incarnation  8 bytes each
///     48  offset, total           of a bulk message: the place of this slice, and the bytes of the whole
///     56  reserved                0; for relays and several connections
///     60  seal                    CRC-32C of the 60 bytes before it
///
/// Numbers are little-endian. The payload of control is the text of one JSON object; that of bulk is a slice of a
/// message of opaque bytes.

namespace reef {
inline namespace v0 {
namespace swarm {

/// The kind of a frame between peers. All but bulk and credit are control, and carry a JSON object.
///
/// | hello      | the first frame of each side of a connection; Endpoint sends and reads it             |
/// | goodbye    | the last frame of a side that closes in order, with the reason; Endpoint's own        |
/// | credit     | grants `total` bytes more of a stream; without payload; Endpoint's own                |
/// | welcome    | accepts the other side's hello; Endpoint's own                                        |
/// | beat ... leave | the messages of a round, by name                                                  |
/// | refuse     | what was wrong with a message or a peer; Endpoint sends it before it closes for cause |
/// | control    | any other control of the user, who names it in the text                               |
/// | bulk       | opaque bytes                                                                          |
enum class FrameKind : std::uint8_t {
  hello = 1,
  goodbye = 2,
  credit = 3,
  welcome = 4,
  beat = 16,
  close = 17,
  offer = 18,
  have = 19,
  ready = 20,
  want = 21,
  leave = 22,
  refuse = 23,
  control = 24,
  bulk = 64
};

/// Returns the name of a kind of frame, such as "beat"; "unknown" if there is no such kind.
std::string_view name_of(FrameKind kind);

/// Returns true if frames of this kind carry the text of a JSON object.
constexpr bool is_control(FrameKind kind) { return kind != FrameKind::bulk && kind != FrameKind::credit; }

/// The most bytes of the payload of one frame. A bulk message is cut into slices: with its header each is a frame of
/// 64 KiB, which are four whole records of TLS, and the last one is what remains.
inline constexpr Bytes max_control_bytes = 4_KiB;
inline constexpr Bytes max_offer_bytes = 64_KiB;
inline constexpr Bytes slice_bytes = 64_KiB - 64;

/// Returns the most bytes of the payload of a frame of this kind.
constexpr Bytes max_payload(FrameKind kind) {
  if (kind == FrameKind::bulk) return slice_bytes;
  if (kind == FrameKind::credit) return 0;
  return kind == FrameKind::offer ? max_offer_bytes : max_control_bytes;
}

/// The fields of a frame that say to which part of the job it belongs, as its sender gives them; the transport itself
/// reads only `stream`.
struct FrameHead {
  /// Stream of a bulk message: messages of a stream arrive in order, and have flow control of their own.
  std::uint32_t stream = 0;
  std::uint32_t piece = 0;
  std::uint64_t round = 0;
  std::uint64_t epoch = 0;
  std::uint64_t incarnation = 0;

  friend constexpr bool operator==(const FrameHead&, const FrameHead&) = default;
};

/// Bytes of a bulk message. They are shared, so that one message can be sent to many peers without copies.
using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

/// A message between peers: control, with `text`, or bulk, with `bytes`.
///
/// \code
/// // given: std::vector<std::byte> encoded
/// const swarm::Frame beat = swarm::Frame::control(swarm::FrameKind::beat, R"({"count": 3})");
/// const swarm::Frame part = swarm::Frame::bulk({.stream = 1, .piece = 7, .round = 12}, std::move(encoded));
/// \endcode
struct Frame {
  FrameKind kind = FrameKind::control;
  FrameHead head{};
  /// Of a control message: one JSON object. Of a bulk message that is sent: what goes before `bytes`, where these are
  /// shared with messages that begin otherwise; one that is received has all in `bytes`.
  std::string text{};
  SharedBytes bytes{};  ///< the message, of a bulk message
  /// True: `bytes` of a bulk message are the sender's, who may drop them before its turn comes; then it is not sent.
  bool lent = false;

  static Frame control(FrameKind kind, std::string json, FrameHead head = {});
  static Frame bulk(FrameHead head, std::vector<std::byte> bytes);
  static Frame bulk(FrameHead head, SharedBytes bytes, std::string before = {});

  /// Returns the bytes of the payload: of the text, or of the whole bulk message.
  [[nodiscard]] Bytes size() const;
};

/// The header of a frame, as it is sent.
struct FrameHeader {
  static constexpr std::uint16_t magic_number = 0x5352;
  static constexpr std::uint8_t current_version = 1;

  std::uint16_t magic = magic_number;
  std::uint8_t version = current_version;
  FrameKind kind = FrameKind::control;
  std::uint32_t sequence = 0;
  std::uint32_t bytes = 0;
  std::uint32_t checksum = 0;
  FrameHead head{};
  std::uint32_t offset = 0;
  std::uint32_t total = 0;
  std::uint32_t reserved = 0;
  std::uint32_t seal = 0;
};

static_assert(sizeof(FrameHeader) == 64 && std::is_trivially_copyable_v<FrameHeader>);

inline constexpr Bytes frame_header_bytes = sizeof(FrameHeader);
static_assert(slice_bytes + frame_header_bytes == 64_KiB);

/// The reason for which received bytes are rejected as a frame.
///
/// | foreign  | the bytes do not begin like a frame                                          |
/// | version  | the frame is in another version of the format                                |
/// | header   | the header is damaged: its seal does not match, or reserved fields are not 0 |
/// | kind     | there is no such kind                                                        |
/// | length   | the payload is longer than its kind allows, or an empty slice                |
/// | sequence | the frame is not the next one of its connection: doubled, lost or reordered  |
/// | payload  | the payload is damaged: its checksum does not match                          |
/// | text     | the payload of control is not the text of one JSON object                    |
/// | slice    | the slice does not continue its stream's message, or is beyond its end       |
/// | total    | the bulk message is longer than allowed, or empty                            |
/// | streams  | more streams have unfinished messages than allowed                           |
enum class FrameFault : std::uint8_t {
  none,
  foreign,
  version,
  header,
  kind,
  length,
  sequence,
  payload,
  text,
  slice,
  total,
  streams
};

/// Returns the name of a reason for rejecting a frame, such as "sequence".
std::string_view name_of(FrameFault fault);

/// The limits of the messages that a FrameDecoder accepts.
struct FrameLimits {
  Bytes message = 16_MiB;    ///< the most bytes of one bulk message (large binary message)
  std::size_t streams = 16;  ///< the most bulk messages that may be incomplete at one time
};

/// Appends the encoded frame of a control or credit message to `out`. `sequence`: its number on the connection. Throws
/// OptionError if the payload is longer than its kind allows; `out` is unchanged then.
void append_frame(std::vector<std::byte>& out, const Frame& frame, std::uint32_t sequence, std::uint32_t total = 0);

/// Appends one slice of a large binary message to `out`: at most slice_bytes from `offset` on. Returns the slice's
/// bytes.
Bytes append_slice(std::vector<std::byte>& out, const Frame& frame, std::uint32_t sequence, Bytes offset);

/// Decodes the bytes of one connection, which arrive in parts of any length, into frames.
///
/// Bytes are not trusted: no memory is reserved for a length that is only claimed, and the first fault is final, since
/// no later frame can be found behind it. After a fault the connection is to be closed.
///
/// \code
/// // given: std::span<const std::byte> received
/// swarm::FrameDecoder decoder;
/// while (!received.empty()) {
///   received = received.subspan(decoder.read(received));
///   if (decoder.fault() != swarm::FrameFault::none) break;  // decoder.why() says what is wrong
///   if (decoder.has_frame()) const swarm::Frame frame = decoder.take();
/// }
/// \endcode
class FrameDecoder {
public:
  explicit FrameDecoder(FrameLimits limits = {}) : limits_(limits) {}

  /// Reads bytes up to the end of the next frame or slice, and returns how many were read; 0 while a frame waits to be
  /// taken, and after a fault.
  std::size_t read(std::span<const std::byte> bytes);

  /// Returns true if a whole message has arrived: control, credit, or the last slice of a large binary message.
  [[nodiscard]] bool has_frame() const { return ready_; }

  /// Returns the message that has arrived. Only where has_frame().
  Frame take();

  /// Returns the header of the frame or slice that was read last; in a credit frame, `total` is the bytes granted.
  [[nodiscard]] FrameHeader header() const { return header_; }

  [[nodiscard]] FrameFault fault() const { return fault_; }

  /// Returns what is wrong with the received bytes, and in which frame; empty while nothing is.
  [[nodiscard]] std::string why() const { return why_; }

  /// Returns the number of frames that were read completely, slices included.
  [[nodiscard]] std::uint32_t frames() const { return sequence_; }

  /// Returns true if the bytes so far end inside of a frame, or bulk messages are incomplete: the end of the connection
  /// is then a truncation.
  [[nodiscard]] bool is_inside() const { return filled_ != 0 || !unfinished_.empty(); }

  /// Returns the bytes of memory that incomplete messages take.
  [[nodiscard]] Bytes held() const;

private:
  struct Unfinished {
    FrameHead head{};
    std::uint32_t total = 0;
    std::vector<std::byte> bytes{};
  };

  void fail(FrameFault fault, std::string_view what);
  bool open_header();
  bool open_slice();
  void finish();

  FrameLimits limits_;
  FrameHeader header_{};
  std::size_t filled_ = 0;  ///< the bytes of the present frame so far, header included
  std::string text_{};      ///< the payload of the present control frame
  std::uint32_t checksum_ = 0;
  std::map<std::uint32_t, Unfinished> unfinished_{};  ///< incomplete bulk messages, by stream
  Frame frame_{};
  bool ready_ = false;
  std::uint32_t sequence_ = 0;
  FrameFault fault_ = FrameFault::none;
  std::string why_{};
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/frame.ipp>
#endif
