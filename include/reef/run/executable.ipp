#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/run/executable.hpp>
#include <reef/run/serial_order.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE Executable::Executable(std::unique_ptr<AnyRankContext> context, const HandlerTable& handlers,
                                   comm::Progress& progress, Lanes& lanes, bool serial)
    : context_(std::move(context)),
      executor_(progress, lanes, context_->placed.program,
                serial ? serial_order(context_->placed.program)
                       : schedule::derive(context_->placed.program, context_->placed.placement),
                handlers) {}

REEF_INLINE Executable::~Executable() = default;

REEF_INLINE void Executable::run() {
  context_->begin_round();
  executor_.run();
}

REEF_INLINE void Executable::add_to(LinkTable& table) const {
  executor_.add_to(table);
  for (const schedule::Instruction& i : context_->builder.program.round) {
    const bool encoded =
        std::any_of(i.sends.begin(), i.sends.end(), [](const auto& message) { return message.raw.has_value(); });
    if (!encoded || context_->plan().wire_of(i.traffic).lossless) continue;
    const Flow flow = flow_of(i, context_->rank());
    const bool measured = std::any_of(context_->losses.begin(), context_->losses.end(),
                                      [&](const CodingLoss& loss) { return loss.flow == flow; });
    if (!measured) table.uses[flow].unmeasured = true;
  }
  for (const CodingLoss& loss : context_->losses) {
    LinkUse& use = table.uses[loss.flow];
    use.numbers += loss.numbers;
    use.lost += loss.lost;
  }
}

}  // namespace run
}  // namespace v0
}  // namespace reef
