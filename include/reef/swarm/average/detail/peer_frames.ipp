#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/average/detail/peer_frames.hpp>
#include <reef/swarm/core/entry_json.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The streams of bulk messages: each has an order and a credit of its own.
enum Stream : std::uint32_t { part_stream = 1, result_stream = 2, state_stream = 3 };

inline FrameHead head_of(Stream stream, std::int64_t piece, std::int64_t round, std::int64_t attempt) {
  return {stream, static_cast<std::uint32_t>(piece), static_cast<std::uint64_t>(round),
          static_cast<std::uint64_t>(attempt), 0};
}

struct FrameWriter {
  Frame operator()(const Beat& beat) const { return Frame::control(FrameKind::beat, to_json(beat).dump()); }
  Frame operator()(const Offer& offer) const { return Frame::control(FrameKind::offer, to_json(offer).dump()); }
  Frame operator()(const Want& want) const { return Frame::control(FrameKind::want, to_json(want).dump()); }
  Frame operator()(const WantState& want) const { return Frame::control(FrameKind::control, to_json(want).dump()); }
  // Parts and results are kept by the peer as long as somebody may need them.
  static Frame lent(Frame frame) {
    frame.lent = true;
    return frame;
  }
  Frame operator()(const Part& part) const {
    return lent(Frame::bulk(head_of(part_stream, part.piece, part.round, part.attempt), part.bytes));
  }
  Frame operator()(const Result& result) const {
    // The digest of the contributors, then the bytes of the piece, which all receivers' messages share.
    std::string targets(sizeof result.targets.bytes, '\0');
    std::memcpy(targets.data(), result.targets.bytes.data(), targets.size());
    return lent(Frame::bulk(head_of(result_stream, result.piece, result.round, result.attempt), result.bytes,
                            std::move(targets)));
  }
  Frame operator()(const StatePiece& piece) const {
    return Frame::bulk(head_of(state_stream, piece.piece, piece.rounds, piece.lineage), piece.bytes);
  }
};

REEF_INLINE Frame frame_of(const Message& message) { return std::visit(FrameWriter{}, message); }

inline Message bulk_message_of(const Frame& frame) {
  const auto piece = static_cast<std::int64_t>(frame.head.piece);
  const auto round = static_cast<std::int64_t>(frame.head.round);
  const auto attempt = static_cast<std::int64_t>(frame.head.epoch);
  switch (frame.head.stream) {
    case part_stream: return Part{round, attempt, piece, frame.bytes};
    case state_stream: return StatePiece{round, piece, frame.bytes, attempt};
    case result_stream: {
      Result result{round, attempt, {}, piece, {}};
      constexpr std::size_t head = sizeof result.targets.bytes;
      if (frame.bytes->size() < head) break;
      std::memcpy(result.targets.bytes.data(), frame.bytes->data(), head);
      result.bytes = std::make_shared<const std::vector<std::byte>>(frame.bytes->begin() + head, frame.bytes->end());
      return result;
    }
    default: break;
  }
  throw DecodeError("reef::swarm: a bulk message of stream ", frame.head.stream, " and ", frame.bytes->size(),
                    " bytes.\n  fix: a part, a result or a piece of state.");
}

REEF_INLINE Message message_of(const Frame& frame) {
  if (frame.kind == FrameKind::bulk) return bulk_message_of(frame);
  const io::Json json = io::parse_json(frame.text, "a message", {.bytes = 64_KiB, .depth = 6});
  switch (frame.kind) {
    case FrameKind::beat: return beat_from_json(json);
    case FrameKind::offer: return offer_from_json(json);
    case FrameKind::want: return want_from_json(json);
    case FrameKind::control: return want_state_from_json(json);
    default: break;
  }
  throw DecodeError("reef::swarm: a message of the kind '", name_of(frame.kind),
                    "'.\n  fix: a beat, an offer or a want.");
}

REEF_INLINE std::string text_of(const PeerPresence& presence) {
  io::Json reach = io::Json::array();
  for (const PeerId& id : presence.reach) reach.push_back(to_text(id));
  return io::Json{{"id", to_text(presence.who.id)}, {"address", presence.who.address}, {"up", presence.who.up},
                  {"down", presence.who.down},      {"reach", std::move(reach)},       {"joins", presence.joins},
                  {"applied", presence.applied},    {"epoch", presence.epoch}}
      .dump();
}

REEF_INLINE std::optional<PeerPresence> presence_from_text(std::string_view text) {
  try {
    const io::Json json = io::parse_json(text, "a presence", {.bytes = 64_KiB, .depth = 4});
    PeerPresence presence;
    presence.who.id = peer_id_from_text(io::require<std::string>(json, "id"), "id");
    presence.who.address = io::require<std::string>(json, "address");
    presence.who.up = io::require<double>(json, "up");
    presence.who.down = io::require<double>(json, "down");
    for (const auto& id : io::require<std::vector<std::string>>(json, "reach")) {
      presence.reach.push_back(peer_id_from_text(id, "reach"));
    }
    std::sort(presence.reach.begin(), presence.reach.end());
    presence.joins = io::require<bool>(json, "joins");
    presence.applied = io::require<std::int64_t>(json, "applied");
    presence.epoch = io::require<std::int64_t>(json, "epoch");
    return presence;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
