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

/// The ranges of the channel numbers of messages: a pass takes numbers that no other pass has, and every rank takes the
/// same number for the same exchange. A channel stays on one lane. Exchanges of all ranks are numbered apart from those
/// of a stage, since stages differ in how many they have.
///
/// | [0, 2^29)                | pipelines                                                      |
/// | [2^29, 2^30)             | parameters that several stages use                             |
/// | [2^30, 2^30 + 2^29)      | optimizers, among the holders of a stage                       |
/// | [2^30 + 2^29, 2^31)      | optimizers, among all ranks or those of a replica: scalars      |
/// | [2^31, 2^32)             | what wraps an optimizer or rewrites its instructions, such as  |
/// |                          | a compressor                                                   |
inline constexpr std::uint32_t first_pipeline_channel = 0;
inline constexpr std::uint32_t first_tied_channel = 1U << 29;
inline constexpr std::uint32_t first_optimizer_channel = 1U << 30;
inline constexpr std::uint32_t first_scalars_channel = first_optimizer_channel + (1U << 29);
inline constexpr std::uint32_t first_wrapper_channel = 1U << 31;

/// Returns the traffic of a remote edge: of its messages, and of the copies beside them.
schedule::Traffic traffic_of_edge(const StepPlan& plan, int edge);

/// Returns the most bytes of one message of a remote edge, and so of its slot, without headers: as in memory, or as the
/// edge's codec has it.
Bytes edge_bytes(const StepPlan& plan, int edge);

/// States the messages of a direct exchange in a group: `sent(position)` elements of `element` bytes go to
/// each other member, `received(position)` come from it, cut into pieces as the collectives cut them.
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

/// Makes an instruction the reduce-scatter of a group, for RankContext::reduce_scatter: each member is sent the shard
/// that it owns, and sends this rank's shard. `offsets` has one entry more than the group has members.
void add_reduce_scatter_messages(Instruction& instruction, const StepBuilder& builder,
                                 Bytes element, std::uint32_t channel, const Group& group,
                                 std::vector<std::int64_t> offsets);

/// Makes an instruction the all-gather of a group, for RankContext::all_gather: this rank's shard is sent to each
/// member, and each member sends its own.
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
