#pragma once

#include <algorithm>
#include <string>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/delta.hpp>
#include <reef/codec/message.hpp>
#include <reef/compress/detail/channel_rules.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

REEF_INLINE bool travels(const run::StepPlan& plan, schedule::Traffic traffic) {
  using schedule::Traffic;
  if (schedule::is_between_stages(traffic)) return true;
  return plan.gathers_of(traffic) || (traffic == Traffic::gradient && plan.gathers_of(Traffic::parameter));
}

REEF_INLINE void require_traffic(const run::StepPlan& plan, schedule::Traffic traffic, const std::string& codec) {
  using schedule::Traffic;
  if (travels(plan, traffic)) return;
  throw OptionError("reef::compress::Channels: the channel ", schedule::name_of(traffic), " is to have the codec ",
                    codec, ".\n  why: this optimizer sends none of that.\n  fix: leave the channel as it is, or ",
                    traffic == Traffic::parameter  ? "an optimizer whose weights are sharded, as optim::Zero1."
                    : traffic == Traffic::gradient ? "an optimizer that sums gradients over ranks, as optim::Ddp."
                                                   : "an optimizer with outer steps, optim::DiLoCo.");
}

REEF_INLINE void require_floats(const run::StepPlan& plan) {
  const bool encodes =
      std::any_of(plan.wire.begin(), plan.wire.end(), [](const run::WireForm& form) { return form.encodes(); });
  if (encodes && plan.sum_bytes() != sizeof(float)) {
    throw OptionError("reef::compress::Channels: the model is of ", name_of(plan.dag->element),
                      ".\n  why: codecs are of fp32, and of bf16 widened to it.\n"
                      "  fix: precision::Fp32 or precision::Bf16, or compress::Dense.");
  }
  if (plan.rounds_gradients() && plan.wire_of(schedule::Traffic::gradient).encodes()) {
    throw OptionError("reef::compress::Channels: gradients are rounded to ", name_of(plan.gradient),
                      " and encoded.\n  why: what the one has lost the other does not know.\n"
                      "  fix: precision::Bf16, whose gradients are fp32, or no Gradient channel.");
  }
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
