#pragma once

#include <array>

#include <reef/swap/atom.hpp>

namespace reef {
inline namespace v0 {
namespace swap {

/// ATOM as published, to compare with: loads run beside kernels, but evictions take the kernels' time, and weights are
/// written back after forwards and after backwards.
///
///     Load(s) beside the kernels of the segment before;  WriteBack(s), Evict(s) between kernels
///
/// Memory and bits are those of Atom<2>. Source: Wu et al., ATOM, arXiv 2403.10504, section III.
///
/// \code
/// using MyTrainer = Trainer<swap::PaperAtom, optim::Ddp<optim::AdamW>>;
/// \endcode
struct PaperAtom : detail::Swapped {
  static constexpr auto schedules() {
    return std::array{
        run::SwapSchedule{.weight_slots = 2, .copies_on_compute_lane = true, .writes_back = true}};
  }
};

static_assert(SwapPolicy<PaperAtom>);

}  // namespace swap
}  // namespace v0
}  // namespace reef
