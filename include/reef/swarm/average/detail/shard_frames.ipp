#pragma once

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/average/detail/shard_frames.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE Frame frame_of(const WantShards& want) {
  return Frame::control(FrameKind::control, io::Json{{"list", want.list}, {"shards", want.shards}}.dump(),
                        {.stream = shard_stream});
}

REEF_INLINE Frame frame_of(const ShardAnswer& answer) {
  if (answer.kind == ShardAnswer::Kind::nothing) {
    return Frame::control(FrameKind::control, R"({"nothing":true})", {.stream = shard_stream});
  }
  const std::uint64_t is_shard = answer.kind == ShardAnswer::Kind::shard ? 1 : 0;
  return Frame::bulk({.stream = shard_stream, .piece = answer.shard, .round = is_shard}, answer.bytes);
}

REEF_INLINE WantShards want_shards_of(const Frame& frame) {
  if (frame.kind != FrameKind::control) {
    throw DecodeError("reef::swarm: data that nobody has asked for.\n  fix: a request for a list or for shards.");
  }
  const std::string source = "a request for shards";
  const io::Json json = io::parse_json(frame.text, source, {.bytes = max_control_bytes, .depth = 4});
  WantShards want{io::require<bool>(json, "list", source),
                  io::require<std::vector<std::uint32_t>>(json, "shards", source)};
  if (want.shards.size() > max_shards_of_request) {
    throw DecodeError("reef::swarm: ", source, " names ", want.shards.size(), ".\n  fix: at most ",
                      max_shards_of_request, ".");
  }
  return want;
}

REEF_INLINE ShardAnswer shard_answer_of(const Frame& frame) {
  if (frame.kind == FrameKind::control) return {};
  if (frame.kind != FrameKind::bulk || frame.bytes == nullptr || frame.head.round > 1) {
    throw DecodeError("reef::swarm: an answer that is no list and no shard.\n  fix: a peer of the same version.");
  }
  return {frame.head.round == 1 ? ShardAnswer::Kind::shard : ShardAnswer::Kind::list, frame.head.piece, frame.bytes};
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
