#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/messages.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

/// The place of this rank in the group of a collective. Throws ScheduleError if it has none, or where offsets
/// are not one more than the members.
inline int position_in(const Instruction& instruction, const StepBuilder& builder,
                       const Group& group, std::size_t offsets) {
  const int position = group.position_of(builder.rank());
  if (position >= 0 && offsets == group.members.size() + 1) return position;
  throw ScheduleError("reef::run: ", instruction.text(), " of rank ", builder.rank(),
                      " is a collective of '", group.name, "', ",
                      position < 0 ? concat("in which the rank is not")
                                   : concat("which has ", group.size(), " members, with ", offsets,
                                            " offsets"),
                      ".\n  fix: go through builder.stage_buckets(), with the bucket's group and shards, or "
                      "one offset more than members.");
}

}  // namespace detail

REEF_INLINE schedule::Traffic traffic_of_edge(const StepPlan& plan, int edge) {
  const bool back = plan.remote_edges[static_cast<std::size_t>(edge)].gradient;
  return back ? schedule::Traffic::activation_gradient : schedule::Traffic::activation;
}

REEF_INLINE Bytes edge_bytes(const StepPlan& plan, int edge) {
  const graph::RemoteEdge& of = plan.remote_edges[static_cast<std::size_t>(edge)];
  const graph::TensorSpec& spec = plan.dag->tensor_at(of.tensor).spec;
  const WireForm& form = plan.wire_of(traffic_of_edge(plan, edge));
  return form.encodes(edge) ? form.bytes(edge, spec.shape.size()) : spec.bytes();
}

REEF_INLINE void add_reduce_scatter_messages(Instruction& instruction, const StepBuilder& builder,
                                             Bytes element, std::uint32_t channel, const Group& group,
                                             std::vector<std::int64_t> offsets) {
  const auto shard = [&](int position) {
    return offsets[static_cast<std::size_t>(position) + 1] -
           offsets[static_cast<std::size_t>(position)];
  };
  const std::int64_t own =
      shard(detail::position_in(instruction, builder, group, offsets.size()));
  add_messages(instruction, builder, element, channel, group, shard, [own](int) { return own; });
  instruction.collective = std::make_shared<const schedule::Collective>(
      schedule::Collective{group, std::move(offsets), schedule::CollectiveForm::reduce_scatter});
}

REEF_INLINE void add_all_gather_messages(Instruction& instruction, const StepBuilder& builder,
                                         Bytes element, std::uint32_t channel, const Group& group,
                                         std::vector<std::int64_t> offsets) {
  const auto shard = [&](int position) {
    return offsets[static_cast<std::size_t>(position) + 1] -
           offsets[static_cast<std::size_t>(position)];
  };
  const std::int64_t own =
      shard(detail::position_in(instruction, builder, group, offsets.size()));
  add_messages(instruction, builder, element, channel, group, [own](int) { return own; }, shard);
  instruction.collective = std::make_shared<const schedule::Collective>(
      schedule::Collective{group, std::move(offsets), schedule::CollectiveForm::all_gather});
}

}  // namespace run
}  // namespace v0
}  // namespace reef
