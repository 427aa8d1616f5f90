#pragma once

#include <reef/swap/concept.hpp>
#include <reef/swap/detail/swapper.hpp>

namespace reef::inline v0::swap {

/// Weights, gradients and optimizer state live in host memory; segments of the model pass through the
/// device in turn, each for all micro-batches of the step before the next.
///
///     Forward:   Load(s), s = 0 .. S-1;  Backward:  Load(s), Evict(s), s = S-1 .. 0, but the last stays
///
/// | lanes  | loads, kernels and what leaves run beside each other; weights are dropped, gradients leave   |
/// | memory | device: `Slots` times the weights and the gradients of the largest segment, and activations  |
/// |        | of all micro-batches                                                                         |
/// | copies | a micro-batch's share of the link falls with the number of micro-batches: per step and       |
/// |        | direction less than twice the weights, and the gradients                                     |
/// | bits   | those of Resident                                                                            |
///
/// A segment is what TrainerOptions::bucket_bytes makes of the model.
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III. Deviation: a third lane for what leaves; the
/// optimizer works on host memory.
template <int Slots = 2>
struct Atom {
  static_assert(Slots >= 2,
                "reef::swap::Atom<Slots>: Slots is at least 2, one runs and one is loaded.");

  using policy_tag = SwapTag;
  static constexpr bool updates_in_backward = false;
  static constexpr bool home_is_host = true;

  static void add(run::StepBuilder& builder) { detail::Swapper(builder, Slots).run(); }

  template <class Handlers, class Site>
  static void add_code(Handlers& handlers, const Site& site) {
    detail::add_swap_code(handlers, site);
  }
};

static_assert(swap_policy<Atom<>>);

}  // namespace reef::inline v0::swap
