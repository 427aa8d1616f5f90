#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <reef/codec/message.hpp>
#include <reef/comm/all_to_all.hpp>
#include <reef/compress/detail/memories.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/core/text.hpp>
#include <reef/run/views.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// The bytes of so many messages, one behind the other.
inline Bytes used_of(std::span<const std::byte> room, std::size_t messages) {
  std::size_t used = 0;
  for (std::size_t k = 0; k < messages; ++k) used += codec::message_in(room.subspan(used)).size();
  return used;
}

/// An all-to-all of messages, or each member's to all: of lengths that are known once they are encoded, where they
/// depend on data.
template <class Communication, class RankContext>
[[nodiscard]] Communication exchange_of(const RankContext& context, const std::vector<run::FragmentPiece>& pieces,
                                        const schedule::Instruction& i) {
  const run::StepPlan& plan = context.plan();
  const bool sums = i.kind == kinds::exchange_encoded;
  const run::CollectiveView view(i);
  const std::span<std::byte> outbox = context.template span<std::byte>(view.given.front());
  const std::span<std::byte> inbox = context.template span<std::byte>(view.taken.front());
  const schedule::Collective& all = *i.collective;
  const run::WireForm& form = plan.wire_of(i.traffic);
  const auto bytes = [&](std::int64_t n) { return max_bytes(plan, pieces, i.traffic, i.index, n); };
  std::vector<std::int64_t> by_owner = encoded_offsets(all.offsets, bytes);
  const auto own = static_cast<std::size_t>(all.group.position_of(context.rank()));
  const std::int64_t own_bytes = size_of_part(by_owner, own);
  std::vector<std::int64_t> of_own{0};
  for (int member = 0; member < all.group.size(); ++member) of_own.push_back(of_own.back() + own_bytes);
  std::vector<std::int64_t> sent = sums ? by_owner : std::vector<std::int64_t>{0, own_bytes};
  std::vector<std::int64_t> received = sums ? std::move(of_own) : std::move(by_owner);
  std::optional<Group> group;
  if (all.group.size() != plan.ranks()) group = all.group;
  auto task = std::make_shared<comm::AllToAllTask>(
      concat("encoded ", schedule::name_of(i.traffic), " ", i.index, sums ? " for owners" : " of owners"), outbox, sent,
      inbox, std::move(received), std::move(group), sums ? comm::Parts::each : comm::Parts::one);
  if (form.exact) return {task};
  task->set_length(comm::Length::at_most);
  const std::size_t of_each = parts_within(pieces, i.traffic, i.index, 0).size() - 1;
  return {task, [to = task.get(), outbox, sent, members = all.group.size(), sums, of_each] {
            for (int member = 0; member < members; ++member) {
              to->set_used(member,
                           used_of(part_of(outbox, sent, sums ? static_cast<std::size_t>(member) : 0), of_each));
            }
          }};
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
