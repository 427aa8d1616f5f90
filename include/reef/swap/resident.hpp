#pragma once

#include <reef/swap/concept.hpp>

namespace reef {
inline namespace v0 {
namespace swap {

/// The swap policy without swapping, the default of a Trainer: the whole model stays in the device's memory.
///
/// \code
/// using MyTrainer = Trainer<swap::Resident, optim::Ddp<optim::AdamW>>;  // as without Resident
/// \endcode
struct Resident {
  using policy_tag = SwapTag;
  static constexpr bool updates_in_backward = false;
  static constexpr bool offloads_to_host = false;

  static void add(run::StepBuilder& /*builder*/) {}
};

static_assert(SwapPolicy<Resident>);

}  // namespace swap
}  // namespace v0
}  // namespace reef
