#pragma once

#include <utility>

#include <reef/codec/message.hpp>
#include <reef/comm/call_task.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/operands.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/transfers.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE AnyRankContext::AnyRankContext(const PlacedProgram& its_program, const Arenas& arenas, Source its_source,
                                           NextMicroBatch its_order, const StepState& its_state)
    : placed(its_program),
      builder(its_program.builder),
      memory(its_program.program, its_program.placement, arenas),
      source(std::move(its_source)),
      own_order(std::move(its_order)),
      state(its_state),
      numbers_(its_program.builder.micro_batches.size()) {}

REEF_INLINE AnyRankContext::~AnyRankContext() = default;

REEF_INLINE AnyRankContext::Communication AnyRankContext::send(std::string name, const Instruction& instruction) const {
  const SendView view(instruction);
  return transfer<comm::SendTask>(std::move(name), instruction, view.message().peer, view.payload.front());
}

REEF_INLINE AnyRankContext::Communication AnyRankContext::receive(std::string name,
                                                                  const Instruction& instruction) const {
  const ReceiveView view(instruction);
  return transfer<comm::ReceiveTask>(std::move(name), instruction, view.message().peer, view.payload.front());
}

template <class Task>
AnyRankContext::Communication AnyRankContext::transfer(std::string name, const Instruction& instruction, int peer,
                                                       Value value) const {
  const std::span<std::byte> payload(memory.at<std::byte>(value.storage),
                                     static_cast<std::size_t>(storage(value).bytes));
  auto task = std::make_shared<Task>(std::move(name), peer, payload);
  const WireForm& form = plan().wire_of(instruction.traffic);
  const bool varies =
      schedule::is_between_stages(instruction.traffic) && form.encodes(instruction.index) && !form.exact;
  if (varies) task->set_length(comm::Length::at_most);
  return {task, [this, to = task.get(), payload, varies, origin = origin_of(instruction)]() mutable {
            if (varies && to->kind() == comm::Kind::send) to->set_used(codec::message_in(payload).size());
            origin.step = static_cast<std::uint32_t>(state.committed);
            origin.round = round;
            to->set_origin(origin);
          }};
}

REEF_INLINE comm::Origin AnyRankContext::origin_of(const Instruction& instruction) const {
  comm::Origin origin;
  origin.plan = Hash().add(plan().agreed).add(builder.purpose).add(builder.variant).value();
  origin.step = static_cast<std::uint32_t>(state.committed);
  origin.round = round;
  origin.edge = static_cast<std::uint32_t>(instruction.index) & 0xffffffU;
  origin.direction = instruction.traffic;
  origin.micro_batch = static_cast<std::uint32_t>(instruction.micro_batch);
  return origin;
}

REEF_INLINE AnyRankContext::Communication AnyRankContext::call(std::string name, std::function<void()> function) {
  return {std::make_shared<comm::CallTask>(std::move(name), std::move(function))};
}

REEF_INLINE void AnyRankContext::begin_round() {
  for (std::size_t j = 0; j < numbers_.size(); ++j) {
    numbers_[j] = state.micro_batch + static_cast<std::uint64_t>(builder.micro_batches[j].number);
  }
  given_.clear();
  ++round;
}

REEF_INLINE std::uint64_t AnyRankContext::first_sample(int j) const {
  const graph::Tensor& input = plan().dag->tensor_at(plan().dag->inputs.at(0));
  const auto samples =
      static_cast<std::uint64_t>(input.spec.shape.rank() == 0 ? 1 : input.spec.shape[0]);
  return numbers_[static_cast<std::size_t>(j)] * samples;
}

REEF_INLINE std::vector<StorageCopy> AnyRankContext::copies_of(const Instruction& instruction) const {
  std::vector<StorageCopy> all;
  const CopyView view(instruction);
  for (std::size_t k = 0; k < view.to.size(); ++k) {
    all.push_back(memory.copy({view.to[k].storage}, {view.from[k].storage}, storage(view.to[k]).bytes));
  }
  return all;
}

REEF_INLINE std::optional<Group> AnyRankContext::group_of(const schedule::Collective& all) const {
  if (all.group.size() == plan().ranks()) return std::nullopt;
  return all.group;
}

REEF_INLINE const schedule::Collective& AnyRankContext::collective_of(const Instruction& instruction,
                                                                      bool has_operands) {
  const bool lacks = !run::has_operands(instruction);
  if (instruction.collective && !(has_operands && lacks)) return *instruction.collective;
  throw ScheduleError(
      "reef::run: ", instruction.text(), " is to be a collective, but ",
      instruction.collective ? "reads or writes nothing" : "does not say whose, nor its messages",
      ".\n  fix: what it reads and writes, and run::add_reduce_scatter_messages or "
      "run::add_all_gather_messages, when it is written.");
}

}  // namespace run
}  // namespace v0
}  // namespace reef
