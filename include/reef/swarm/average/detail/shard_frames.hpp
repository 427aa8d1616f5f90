#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/language.hpp>
#include <reef/swarm/core/message.hpp>
#include <reef/swarm/net/frame.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// \file
/// The frames by which a peer asks for training data, and gets it. They have a stream of their own, whose number stands
/// in the head of control frames too.

inline constexpr std::uint32_t shard_stream = 4;
/// The most shards that one request names.
inline constexpr std::size_t max_shards_of_request = 8;

/// A request for the list of shards, or for some of them.
struct WantShards {
  bool list = false;
  std::vector<std::uint32_t> shards{};
};

/// The answer to a request: the list's text, a shard, or that the sender does not have what was asked for.
struct ShardAnswer {
  enum class Kind : std::uint8_t { list, shard, nothing };

  Kind kind = Kind::nothing;
  std::uint32_t shard = 0;
  Bulk bytes{};
};

inline bool is_of_shards(const Frame& frame) { return frame.head.stream == shard_stream; }

Frame frame_of(const WantShards& want);
Frame frame_of(const ShardAnswer& answer);

/// Return what a frame of the stream says. They throw DecodeError for a frame that says nothing of the kind.
WantShards want_shards_of(const Frame& frame);
ShardAnswer shard_answer_of(const Frame& frame);

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/detail/shard_frames.ipp>
#endif
