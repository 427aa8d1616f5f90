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

/// The common base of policies that swap: weights, gradients and optimizer state live in host memory, except those of
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

/// Swaps the model: weights, gradients and optimizer state live in host memory; the device holds one segment of the
/// model after another, each for all micro-batches of the step before the next. Where there is room, the first segments
/// stay on the device.
///
///     Forward:   Load(s), s = 0 .. S-1;  Backward:  Load(s), Evict(s), s = S-1 .. 0, but the last stays
///
/// | lanes  | loads, kernels and evictions run beside each other; weights are dropped,            |
/// |        | gradients leave                                                                     |
/// | memory | device: slots for the weights and the gradients of the largest segment, and         |
/// |        | activations of all micro-batches: what crosses segments' bounds, and the rest where |
/// |        | it is kept; more slots than two save loads between the forward and the backward     |
/// |        | pass, and let loads run ahead                                                       |
/// | copies | per step and direction less than twice the weights, and the gradients, however many |
/// |        | micro-batches (unless the plan streams them); and of each what is stashed           |
/// | bits   | those of Resident                                                                   |
/// | stages | a stage of a pipeline brings its segments for one unit of micro-batches after       |
/// |        | another: pipeline::ScheduledOptions::unit. Where it updates within a step, versions |
/// |        | of its weights lie in host memory, and each micro-batch is loaded its own           |
/// | plan   | where the device's memory has a bound, cuts, slots, what each segment keeps and how |
/// |        | many first segments live on the device (SwapSchedule::resident_segments) are chosen |
/// |        | for it: TrainerOptions::cuts, profile. Where LayerStreaming's schedule is faster,   |
/// |        | the plan takes that                                                                 |
///
/// `Slots` above 0 fixes the number of slots.
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III. Deviation: a third lane for evictions; the optimizer works
/// where weights live.
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

  /// True: a plan may have the first segments live on the device.
  static constexpr bool allows_resident_segments = true;

  /// Returns the schedules of which a plan chooses; without a plan the first holds.
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
