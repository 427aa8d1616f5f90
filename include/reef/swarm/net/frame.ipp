#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/checksum.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/net/frame.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE std::string_view name_of(FrameKind kind) {
  switch (kind) {
    case FrameKind::hello: return "hello";
    case FrameKind::goodbye: return "goodbye";
    case FrameKind::credit: return "credit";
    case FrameKind::welcome: return "welcome";
    case FrameKind::beat: return "beat";
    case FrameKind::close: return "close";
    case FrameKind::offer: return "offer";
    case FrameKind::have: return "have";
    case FrameKind::ready: return "ready";
    case FrameKind::want: return "want";
    case FrameKind::leave: return "leave";
    case FrameKind::refuse: return "refuse";
    case FrameKind::control: return "control";
    case FrameKind::bulk: return "bulk";
  }
  return "unknown";
}

REEF_INLINE std::string_view name_of(FrameFault fault) {
  switch (fault) {
    case FrameFault::none: return "none";
    case FrameFault::foreign: return "foreign";
    case FrameFault::version: return "version";
    case FrameFault::header: return "header";
    case FrameFault::kind: return "kind";
    case FrameFault::length: return "length";
    case FrameFault::sequence: return "sequence";
    case FrameFault::payload: return "payload";
    case FrameFault::text: return "text";
    case FrameFault::slice: return "slice";
    case FrameFault::total: return "total";
    case FrameFault::streams: return "streams";
  }
  return "unknown";
}

REEF_INLINE Frame Frame::control(FrameKind kind, std::string json, FrameHead head) {
  return {kind, head, std::move(json), nullptr, false};
}

REEF_INLINE Frame Frame::bulk(FrameHead head, std::vector<std::byte> bytes) {
  return bulk(head, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
}

REEF_INLINE Frame Frame::bulk(FrameHead head, SharedBytes bytes, std::string before) {
  return {FrameKind::bulk, head, std::move(before), std::move(bytes), false};
}

REEF_INLINE Bytes Frame::size() const {
  const Bytes shared = kind == FrameKind::bulk && bytes != nullptr ? bytes->size() : 0;
  return text.size() + shared;
}

namespace detail {

REEF_INLINE std::uint32_t seal_of(const FrameHeader& header) {
  return io::crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(FrameHeader, seal)));
}

/// Appends a header, whose bytes, checksum and seal it sets, and the payload, in two parts.
REEF_INLINE void append_sealed(std::vector<std::byte>& out, FrameHeader header, std::span<const std::byte> first,
                               std::span<const std::byte> second) {
  header.bytes = static_cast<std::uint32_t>(first.size() + second.size());
  header.checksum = io::crc32c(second, io::crc32c(first));
  header.seal = seal_of(header);
  const auto head = std::as_bytes(std::span(&header, 1));
  out.insert(out.end(), head.begin(), head.end());
  out.insert(out.end(), first.begin(), first.end());
  out.insert(out.end(), second.begin(), second.end());
}

/// Appends bytes to a message that has `total` in the end. Doubles its memory as need be, up to these.
REEF_INLINE void append_received(std::vector<std::byte>& message, std::span<const std::byte> bytes, std::size_t total) {
  const std::size_t present = message.size() + bytes.size();
  if (present > message.capacity()) message.reserve((std::min)(total, (std::max)(present, 2 * message.capacity())));
  message.insert(message.end(), bytes.begin(), bytes.end());
}

}  // namespace detail

REEF_INLINE void append_frame(std::vector<std::byte>& out, const Frame& frame, std::uint32_t sequence,
                              std::uint32_t total) {
  if (frame.kind == FrameKind::bulk || frame.size() > max_payload(frame.kind)) {
    throw OptionError("reef::swarm::append_frame: a frame of kind ", name_of(frame.kind), " has ", frame.size(),
                      " bytes, and takes at most ", max_payload(frame.kind),
                      ".\n  fix: send what is longer as bulk, in slices.");
  }
  FrameHeader header;
  header.kind = frame.kind;
  header.sequence = sequence;
  header.head = frame.head;
  header.total = total;
  detail::append_sealed(out, header, std::as_bytes(std::span(frame.text)), {});
}

REEF_INLINE Bytes append_slice(std::vector<std::byte>& out, const Frame& frame, std::uint32_t sequence,
                               Bytes offset) {
  const Bytes all = frame.size();
  const bool is_bulk = frame.kind == FrameKind::bulk && frame.bytes != nullptr;
  if (!is_bulk || offset >= all || all > (std::numeric_limits<std::uint32_t>::max)()) {
    throw OptionError("reef::swarm::append_slice: there is no slice at byte ", offset, " of a ", name_of(frame.kind),
                      " frame of ", all, " bytes.\n  fix: offsets below the size, of bulk below 4 GiB.");
  }
  const Bytes bytes = (std::min)(slice_bytes, all - offset);
  FrameHeader header;
  header.kind = frame.kind;
  header.sequence = sequence;
  header.head = frame.head;
  header.offset = static_cast<std::uint32_t>(offset);
  header.total = static_cast<std::uint32_t>(all);
  const Bytes before = frame.text.size();
  const Bytes of_text = offset < before ? (std::min)(bytes, before - offset) : 0;
  const Bytes from = offset < before ? 0 : offset - before;
  detail::append_sealed(out, header, std::as_bytes(std::span(frame.text)).subspan((std::min)(offset, before), of_text),
                        std::span(*frame.bytes).subspan(from, bytes - of_text));
  return bytes;
}

REEF_INLINE void FrameDecoder::fail(FrameFault fault, std::string_view what) {
  fault_ = fault;
  why_ = concat("frame ", sequence_, ": ", what);
  unfinished_.clear();
  text_ = {};
}

REEF_INLINE Bytes FrameDecoder::held() const {
  Bytes bytes = text_.capacity();
  for (const auto& [stream, message] : unfinished_) bytes += message.bytes.capacity();
  return bytes;
}

// Checks a whole header. Nothing of it is used before the seal has been compared.
REEF_INLINE bool FrameDecoder::open_header() {
  if (header_.seal != detail::seal_of(header_)) {
    fail(FrameFault::header, "its header is damaged: the seal does not match");
  } else if (name_of(header_.kind) == "unknown") {
    fail(FrameFault::kind, concat("there is no kind ", static_cast<unsigned>(header_.kind)));
  } else if (header_.sequence != sequence_) {
    fail(FrameFault::sequence, concat("has the number ", header_.sequence, ": doubled, lost or reordered"));
  } else if (header_.bytes > max_payload(header_.kind)) {
    fail(FrameFault::length, concat("a ", name_of(header_.kind), " of ", header_.bytes, " bytes, at most ",
                                    max_payload(header_.kind)));
  } else if (header_.reserved != 0 || (header_.kind != FrameKind::bulk && header_.offset != 0) ||
             (is_control(header_.kind) && header_.total != 0)) {
    fail(FrameFault::header, concat("a ", name_of(header_.kind), " with fields that are not of its kind"));
  } else {
    return header_.kind != FrameKind::bulk || open_slice();
  }
  return false;
}

REEF_INLINE bool FrameDecoder::open_slice() {
  const std::uint32_t stream = header_.head.stream;
  const auto found = unfinished_.find(stream);
  const Bytes present = found == unfinished_.end() ? 0 : found->second.bytes.size();
  if (header_.total == 0 || header_.total > limits_.message) {
    fail(FrameFault::total, concat("a bulk message of ", header_.total, " bytes, from 1 to ", limits_.message,
                                   " are accepted"));
  } else if (header_.offset != present ||
             (present != 0 && (found->second.head != header_.head || found->second.total != header_.total))) {
    fail(FrameFault::slice, concat("a slice from byte ", header_.offset, " on of stream ", stream,
                                   ", whose present message continues at byte ", present));
  } else if (header_.bytes != std::min<Bytes>(slice_bytes, header_.total - present)) {
    fail(FrameFault::slice, concat("a slice of ", header_.bytes, " bytes from byte ", present, " on of ",
                                   header_.total, ": all but the last have ", slice_bytes));
  } else if (found == unfinished_.end() && unfinished_.size() >= limits_.streams) {
    fail(FrameFault::streams, concat("begins a message of stream ", stream, " while ", unfinished_.size(),
                                     " others are unfinished"));
  } else {
    if (present == 0) unfinished_[stream] = {header_.head, header_.total, {}};
    return true;
  }
  return false;
}

REEF_INLINE void FrameDecoder::finish() {
  if (header_.checksum != checksum_) {
    fail(FrameFault::payload, concat("the payload of a ", name_of(header_.kind), " is damaged"));
    return;
  }
  if (header_.kind == FrameKind::bulk) {
    const auto found = unfinished_.find(header_.head.stream);
    if (found->second.bytes.size() == found->second.total) {
      frame_ = Frame::bulk(header_.head, std::move(found->second.bytes));
      unfinished_.erase(found);
      ready_ = true;
    }
  } else {
    if (is_control(header_.kind)) {
      try {
        const std::string source = concat("the text of a ", name_of(header_.kind));
        io::require_object(io::parse_json(text_, source, {.bytes = max_offer_bytes, .depth = 16}), "", source);
      } catch (const DecodeError& error) {
        fail(FrameFault::text, error.what());
        return;
      }
    }
    frame_ = Frame::control(header_.kind, std::exchange(text_, {}), header_.head);
    ready_ = true;
  }
  filled_ = 0;
  checksum_ = 0;
  ++sequence_;
}

REEF_INLINE Frame FrameDecoder::take() {
  ready_ = false;
  return std::exchange(frame_, {});
}

REEF_INLINE std::size_t FrameDecoder::read(std::span<const std::byte> bytes) {
  if (fault_ != FrameFault::none || ready_ || bytes.empty()) return 0;
  std::size_t used = 0;
  if (filled_ < frame_header_bytes) {
    used = std::min<std::size_t>(bytes.size(), frame_header_bytes - filled_);
    std::memcpy(reinterpret_cast<std::byte*>(&header_) + filled_, bytes.data(), used);
    filled_ += used;
    if (filled_ >= sizeof header_.magic && header_.magic != FrameHeader::magic_number) {
      fail(FrameFault::foreign, "the bytes are no frame of Reef's swarm");
    } else if (filled_ > offsetof(FrameHeader, version) && header_.version != FrameHeader::current_version) {
      fail(FrameFault::version, concat("version ", static_cast<unsigned>(header_.version), " of the format, here is ",
                                       static_cast<unsigned>(FrameHeader::current_version)));
    } else if (filled_ == frame_header_bytes && open_header() && header_.bytes == 0) {
      finish();
    }
    if (fault_ != FrameFault::none || filled_ < frame_header_bytes) return used;
  }
  const std::size_t missing = frame_header_bytes + header_.bytes - filled_;
  const auto part = bytes.subspan(used, (std::min)(missing, bytes.size() - used));
  checksum_ = io::crc32c(part, checksum_);
  if (header_.kind == FrameKind::bulk) {
    Unfinished& message = unfinished_.find(header_.head.stream)->second;
    detail::append_received(message.bytes, part, message.total);
  } else {
    text_.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  filled_ += part.size();
  if (part.size() == missing) finish();
  return used + part.size();
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
