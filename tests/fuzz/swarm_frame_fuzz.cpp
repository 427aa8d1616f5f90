// The bytes of a connection between two peers of a swarm, and the messages in its frames: as they came, in parts of
// other lengths, and with the numbers, checksums and seals that they should have, so that what lies behind these is
// read as well.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/io/checksum.hpp>
#include <reef/swarm/average/detail/peer_frames.hpp>
#include <reef/swarm/net/frame.hpp>

#include "target.hpp"

namespace {

using namespace reef;
using reef::fuzz::demand;
using swarm::Frame;
using swarm::FrameFault;
using swarm::FrameHeader;

/// The messages of a connection, and what was wrong with it.
struct Arrived {
  std::vector<Frame> frames{};
  FrameFault fault = FrameFault::none;
  std::string why{};
  std::uint32_t count = 0;
  bool inside = false;
};

Arrived read_in_parts(std::span<const std::byte> bytes, std::size_t most) {
  swarm::FrameDecoder decoder({.message = 1_MiB, .streams = 3});
  Arrived arrived;
  std::size_t fed = 0;
  while (fed < bytes.size()) {
    const std::size_t used = decoder.read(bytes.subspan(fed, std::min(most, bytes.size() - fed)));
    demand(used <= bytes.size() - fed, "no more is read than is there");
    fed += used;
    demand(decoder.held() <= 2 * fed + 64, "memory is for bytes that came, and not for those that are announced");
    if (decoder.has_frame()) {
      arrived.frames.push_back(decoder.take());
    } else if (used == 0) {
      demand(decoder.fault() != FrameFault::none, "reading ends at a fault alone");
      break;
    }
  }
  arrived.fault = decoder.fault();
  arrived.why = decoder.why();
  arrived.count = decoder.frames();
  arrived.inside = decoder.is_inside();
  demand((arrived.fault == FrameFault::none) == arrived.why.empty(), "a fault is explained, and nothing else");
  demand(decoder.read(bytes) == 0 || arrived.fault == FrameFault::none, "the first fault is final");
  return arrived;
}

bool same(const Frame& a, const Frame& b) {
  const bool bulk = a.kind == swarm::FrameKind::bulk;
  return a.kind == b.kind && a.head == b.head && a.text == b.text && (!bulk || *a.bytes == *b.bytes);
}

/// Returns a frame as who is sent it has it: of a bulk message all is in `bytes`.
Frame received(const Frame& sent) {
  if (sent.kind != swarm::FrameKind::bulk) return sent;
  const auto before = std::as_bytes(std::span(sent.text));
  std::vector<std::byte> all(before.begin(), before.end());
  if (sent.bytes) all.insert(all.end(), sent.bytes->begin(), sent.bytes->end());
  return Frame::bulk(sent.head, std::move(all));
}

void read_message(const Frame& frame) {
  fuzz::reads([&] {
    const swarm::Message message = swarm::detail::message_of(frame);
    const Frame written = received(swarm::detail::frame_of(message));
    demand(same(written, received(swarm::detail::frame_of(swarm::detail::message_of(written)))),
           "a message, written and read again, is the same");
  });
}

/// Returns the connection with frames as long as they say or as there are bytes, each with the header that it should
/// have.
std::vector<std::byte> resealed(std::span<const std::byte> bytes) {
  std::vector<std::byte> out;
  for (std::uint32_t sequence = 0; bytes.size() >= swarm::frame_header_bytes; ++sequence) {
    FrameHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    bytes = bytes.subspan(sizeof header);
    const auto payload = bytes.first(std::min<std::size_t>(header.bytes, bytes.size()));
    bytes = bytes.subspan(payload.size());
    header.magic = FrameHeader::magic_number;
    header.version = FrameHeader::current_version;
    header.sequence = sequence;
    header.bytes = static_cast<std::uint32_t>(payload.size());
    header.checksum = io::crc32c(payload);
    header.seal = io::crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(FrameHeader, seal)));
    const auto head = std::as_bytes(std::span(&header, 1));
    out.insert(out.end(), head.begin(), head.end());
    out.insert(out.end(), payload.begin(), payload.end());
  }
  return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::byte> mended = resealed(std::as_bytes(std::span(data, size)));
  for (const auto bytes : {std::as_bytes(std::span(data, size)), std::span<const std::byte>(mended)}) {
    const Arrived whole = read_in_parts(bytes, (std::max)(bytes.size(), std::size_t{1}));
    for (const std::size_t most : {std::size_t{1}, std::size_t{67}}) {
      const Arrived parts = read_in_parts(bytes, most);
      demand(parts.fault == whole.fault && parts.why == whole.why && parts.count == whole.count &&
                 parts.inside == whole.inside && std::ranges::equal(parts.frames, whole.frames, same),
             "how bytes are cut on their way changes nothing");
    }
    for (const Frame& frame : whole.frames) {
      if (frame.kind != swarm::FrameKind::credit) read_message(frame);
    }
  }
  return 0;
}
