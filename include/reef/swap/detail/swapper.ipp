#pragma once

#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/run/views.hpp>
#include <reef/swap/detail/stasher.hpp>
#include <reef/swap/detail/swap_slots.hpp>
#include <reef/swap/detail/swapper.hpp>
#include <reef/swap/kinds.hpp>
#include <reef/swap/views.hpp>

namespace reef::inline v0::swap::detail {

REEF_INLINE void Swapper::run() {
  std::vector<Instruction> written;
  written.swap(program_.round);
  program_.round.reserve(2 * written.size());  // with what is put between
  reserve();
  std::vector<Instruction> fold;
  fold.reserve(written.size());
  for (Instruction& instruction : written) {
    const bool of_model = is_of_model(instruction);
    const bool ends = sorts_ ? instruction.lane == Lane::compute : touches_sums(instruction);
    if (!of_model && ends) finish(fold);
    const bool stays = of_model || !(sorts_ || ends);
    (stays ? fold : program_.round).push_back(std::move(instruction));
  }
  finish(fold);
}

}  // namespace reef::inline v0::swap::detail
