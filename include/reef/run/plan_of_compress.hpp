#pragma once

#include <array>
#include <cstddef>

#include <reef/run/wire_form.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The part of a training plan (StepPlan) that the compressor fills in. Other policies read it by wire_of().
///
/// \code
/// // given: const run::StepPlan& plan
/// const bool as_in_memory = !plan.wire_of(schedule::Traffic::gradient).encodes();
/// static_cast<void>(as_in_memory);
/// \endcode
struct PlanOfCompress {
  /// The form of messages by sort (activations, gradients, ...), in the order of Traffic.
  std::array<WireForm, schedule::traffic_count> wire{};

  [[nodiscard]] const WireForm& wire_of(schedule::Traffic traffic) const& {
    return wire[static_cast<std::size_t>(traffic)];
  }
  [[nodiscard]] WireForm wire_of(schedule::Traffic traffic) const&& { return wire_of(traffic); }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
