#pragma once

#include <cstdint>
#include <vector>

#include <reef/comm/shards.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The ranges of the channel numbers (tags) of messages: each policy uses numbers that no other policy uses, and every
/// rank uses the same number for the same exchange. All messages of a channel are in one queue. Exchanges of all ranks
/// have a range of their own, since stages differ in the number of their exchanges.
///
/// | [0, 2^29)           | pipelines                                                  |
/// | [2^29, 2^30)        | parameters that several stages use                         |
/// | [2^30, 2^30 + 2^29) | optimizers, among the holders of a stage                   |
/// | [2^30 + 2^29, 2^31) | optimizers, among all ranks or those of a replica: scalars |
/// | [2^31, 2^32)        | passes that wrap an optimizer or rewrite its instructions, |
/// |                     | such as a compressor                                       |
inline constexpr std::uint32_t first_pipeline_channel = 0;
inline constexpr std::uint32_t first_tied_channel = 1U << 29;
inline constexpr std::uint32_t first_optimizer_channel = 1U << 30;
inline constexpr std::uint32_t first_scalars_channel = first_optimizer_channel + (1U << 29);
inline constexpr std::uint32_t first_wrapper_channel = 1U << 31;

/// Returns the sort of messages (activations, gradients, ...) of an edge between stages, and of the copies that go with
/// them.
schedule::Traffic traffic_of_edge(const StepPlan& plan, int edge);

/// Returns the most bytes of one message of an edge between stages, without headers, which is the size of its buffer:
/// the bytes in memory, or if a codec encodes the message, the codec's.
Bytes edge_bytes(const StepPlan& plan, int edge);

/// Adds the messages of a direct exchange in a group to an instruction: `sent(position)` elements of `element` bytes go
/// to each other member, `received(position)` are received from it, cut into pieces as in collectives.
template <class Sent, class Received>
void add_messages(Instruction& instruction, const StepBuilder& builder, Bytes element,
                  std::uint32_t channel, const Group& group, const Sent& sent,
                  const Received& received) {
  const auto add = [&](std::vector<schedule::Message>& to, int peer, std::int64_t elements) {
    const comm::Cost cost = comm::detail::shard_cost(elements, element, builder.plan.piece_bytes);
    if (cost.messages > 0) to.push_back({peer, cost.bytes, channel, cost.messages});
  };
  for (int position = 0; position < group.size(); ++position) {
    const int peer = group.members[static_cast<std::size_t>(position)];
    if (peer == builder.rank()) continue;
    add(instruction.sends, peer, sent(position));
    add(instruction.receives, peer, received(position));
  }
}

/// Turns an instruction into the reduce-scatter of a group, for RankContext::reduce_scatter: each member is sent the
/// shard that it owns, and sends this rank's shard. `offsets` has one entry more than the group has members.
void add_reduce_scatter_messages(Instruction& instruction, const StepBuilder& builder,
                                 Bytes element, std::uint32_t channel, const Group& group,
                                 std::vector<std::int64_t> offsets);

/// Turns an instruction into the all-gather of a group, for RankContext::all_gather: this rank sends its shard to each
/// member, and receives the member's shard.
///
/// \code
/// // given: run::StepBuilder& builder, schedule::Instruction& gather, std::size_t b
/// const run::Bucket& bucket = builder.plan.buckets[b];
/// run::add_all_gather_messages(gather, builder, builder.plan.sum_bytes(),
///                              run::first_optimizer_channel, bucket.group, bucket.shards);
/// \endcode
void add_all_gather_messages(Instruction& instruction, const StepBuilder& builder,
                             Bytes element, std::uint32_t channel, const Group& group,
                             std::vector<std::int64_t> offsets);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/messages.ipp>
#endif
