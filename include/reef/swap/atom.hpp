#pragma once

#include <algorithm>
#include <array>

#include <reef/swap/concept.hpp>
#include <reef/swap/detail/swap_code.hpp>
#include <reef/swap/detail/swapper.hpp>
#include <reef/swap/planner.hpp>

namespace reef {
inline namespace v0 {
namespace swap {

namespace detail {

/// Common base of policies that swap: weights, gradients and optimizer state are kept in host memory, except those of
/// the first SwapSchedule::resident_segments segments.
struct Swapped {
  using policy_tag = SwapTag;
  using Planner = swap::Planner;
  static constexpr bool updates_in_backward = false;
  static constexpr bool offloads_to_host = true;

  static void add(run::StepBuilder& builder) { Swapper(builder).run(); }

  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const NoOptions& /*none*/) {
    add_swap_code(handlers, context);
  }
};

}  // namespace detail

/// Swaps the model between host and device: weights, gradients and optimizer state are kept in host memory; the device
/// holds one segment of the model (consecutive operators) after another, each for all micro-batches of the step before
/// the next. Where there is room, the first segments stay on the device.
///
///     Forward:   Load(s), s = 0 .. S-1;  Backward:  Load(s) if s < S-1, Evict(s), s = S-1 .. 0
///
/// | lanes  | loads, kernels and evictions run at the same time; an eviction drops the weights    |
/// |        | and copies the gradients to the host                                                |
/// | memory | device: slots for the weights and the gradients of the largest segment, and         |
/// |        | activations of all micro-batches: those that cross a segment's bound, and others    |
/// |        | where segments keep them; more than two slots save loads between the forward and    |
/// |        | the backward pass, and let loads run ahead                                          |
/// | copies | per step and direction less than twice the weights, and the gradients, for any      |
/// |        | number of micro-batches (unless the plan streams them); and all stashed activations |
/// | bits   | those of Resident                                                                   |
/// | stages | a stage of a pipeline loads its segments for one unit of micro-batches after        |
/// |        | another: pipeline::ScheduledOptions::unit. Where it updates within a step, versions |
/// |        | of its weights are kept in host memory, and each micro-batch loads its own version  |
/// | plan   | if the device's memory is limited, a plan chooses cuts, slots, the activations that |
/// |        | each segment keeps and how many first segments stay on the device                   |
/// |        | (SwapSchedule::resident_segments): TrainerOptions::cuts, profile. It may choose     |
/// |        | the schedule of LayerStreaming, if that is faster                                   |
///
/// `Slots` above 0 fixes the number of slots.
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III. Deviation: a third lane for evictions; the optimizer runs
/// where weights are kept.
///
/// \code
/// using MyTrainer = Trainer<swap::Atom<>, optim::Ddp<optim::AdamW>>;
/// MyTrainer::Options options;
/// options.device.memory_bytes = 60'000'000;
/// options.device.link_bytes_per_second = 1e9;
/// options.micro_batches = {4};
/// \endcode
template <int Slots = 0>
struct Atom : detail::Swapped {
  static_assert(Slots == 0 || Slots >= 2,
                "reef::swap::Atom<Slots>: Slots is at least 2, one runs and one is loaded; or 0.");

  /// True: a plan may keep the first segments of the model on the device.
  static constexpr bool allows_resident_segments = true;

  /// Returns the swap schedules from which a plan chooses; without a plan the first is used.
  static constexpr auto schedules() {
    if constexpr (Slots > 0) {
      return std::array{
          run::SwapSchedule{.weight_slots = Slots, .stash_slots = (std::min)(Slots, 4)}};
    } else {
      return std::array{run::SwapSchedule{.weight_slots = 2},
                        run::SwapSchedule{.weight_slots = 3},
                        run::SwapSchedule{.weight_slots = 4},
                        run::SwapSchedule{.weight_slots = 6},
                        run::SwapSchedule{.weight_slots = 9},
                        run::SwapSchedule{.weight_slots = 9, .stash_slots = 4},
                        run::SwapSchedule{.weight_slots = 2, .per_micro_batch = true}};
    }
  }
};

static_assert(SwapPolicy<Atom<>>);

}  // namespace swap
}  // namespace v0
}  // namespace reef
