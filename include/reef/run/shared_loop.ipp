#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/shared_loop.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE SharedLoop::SharedLoop(StepBuilder& builder, int number, std::uint32_t channel)
    : builder_(builder),
      number_(number),
      channel_(channel),
      group_(builder.plan.topology.pipeline(builder.plan.topology.replica_of(builder.rank()))) {
  const auto numbers = [&](const char* what, std::size_t count) {
    return Value{builder.program.add_storage(concat(what, number), count * sizeof(double), Place::host), 0};
  };
  ready_ = numbers("ready for loop ", 1);
  said_ = numbers("said about loop ", group_.members.size());
}

REEF_INLINE void SharedLoop::begin() {
  repeat_.first_agree = add_agreement();
  repeat_.begin = static_cast<std::uint32_t>(builder_.program.round.size());
}

REEF_INLINE void SharedLoop::end(std::uint32_t until, int max) {
  repeat_.agree = add_agreement();
  builder_.program.add(kinds::agreed, Lane::compute, number_).after = {said_};
  repeat_.end = static_cast<std::uint32_t>(builder_.program.round.size());
  repeat_.until = until;
  repeat_.max = max;
  builder_.program.repeats.push_back(repeat_);
}

REEF_INLINE std::uint32_t SharedLoop::add_agreement() {
  builder_.program.add(kinds::ready, Lane::compute, number_).writes = {ready_};
  const auto place = static_cast<std::uint32_t>(builder_.program.round.size());
  Instruction& agree = builder_.program.add(kinds::agree, Lane::send, number_);
  agree.traffic = schedule::Traffic::scalars;
  CollectiveView(agree, ready_, said_);
  std::vector<std::int64_t> offsets;
  for (int member = 0; member <= group_.size(); ++member) offsets.push_back(member);
  add_all_gather_messages(agree, builder_, sizeof(double), channel_, group_, std::move(offsets));
  return place;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
