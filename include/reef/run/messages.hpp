#pragma once

#include <cstdint>
#include <span>

#include <reef/comm/shards.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::inline v0::run {

/// Who numbers the channels of messages from where: a pass takes numbers that no other pass has, and
/// every rank takes the same for the same exchange. A channel stays on one lane.
///
/// | [0, 2^30)    | pipelines                                                                  |
/// | [2^30, 2^31) | optimizers                                                                 |
/// | [2^31, 2^32) | what wraps an optimizer or rewrites its instructions, such as a compressor |
inline constexpr std::uint32_t first_pipeline_channel = 0;
inline constexpr std::uint32_t first_optimizer_channel = 1U << 30;
inline constexpr std::uint32_t first_wrapper_channel = 1U << 31;

/// States the messages of a direct exchange: `sent(peer)` elements of `element` bytes go to each other
/// rank, `received(peer)` come from it, cut into pieces as the collectives cut them.
template <class Sent, class Received>
void add_messages(Instruction& instruction, const StepBuilder& builder, Bytes element,
                  std::uint32_t channel, const Sent& sent, const Received& received) {
  const auto add = [&](std::vector<schedule::Message>& to, int peer, std::int64_t elements) {
    const comm::Cost cost = comm::detail::shard_cost(elements, element, builder.plan.piece_bytes);
    if (cost.messages > 0) to.push_back({peer, cost.bytes, channel, cost.messages});
  };
  for (int peer = 0; peer < builder.plan.ranks; ++peer) {
    if (peer == builder.rank()) continue;
    add(instruction.sends, peer, sent(peer));
    add(instruction.receives, peer, received(peer));
  }
}

/// States what RankContext::reduce_scatter sends and receives with the same P + 1 offsets: to each
/// rank the chunk that it owns, from each this rank's.
inline void add_reduce_scatter_messages(Instruction& instruction, const StepBuilder& builder,
                                        Bytes element, std::uint32_t channel,
                                        std::span<const std::int64_t> offsets) {
  const auto shard = [&](int r) {
    return offsets[static_cast<std::size_t>(r) + 1] - offsets[static_cast<std::size_t>(r)];
  };
  add_messages(instruction, builder, element, channel, shard,
               [&](int /*peer*/) { return shard(builder.rank()); });
}

/// States what RankContext::all_gather sends and receives with the same P + 1 offsets: this rank's
/// shard to each, from each its own.
inline void add_all_gather_messages(Instruction& instruction, const StepBuilder& builder,
                                    Bytes element, std::uint32_t channel,
                                    std::span<const std::int64_t> offsets) {
  const auto shard = [&](int r) {
    return offsets[static_cast<std::size_t>(r) + 1] - offsets[static_cast<std::size_t>(r)];
  };
  add_messages(
      instruction, builder, element, channel, [&](int /*peer*/) { return shard(builder.rank()); },
      shard);
}

}  // namespace reef::inline v0::run
