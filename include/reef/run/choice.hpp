#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include <reef/core/language.hpp>

/// \file
/// The decisions of a plan that a planner may make: cuts, activations, and when segments are on the device.

namespace reef {
inline namespace v0 {
namespace run {

/// The way in which a segment of the model keeps its activations from its forward to its backward.
///
/// | keep                | all tensors that the backward reads stay on the device                         |
/// | stash               | the same tensors, but copied to host memory after the forward, and back before |
/// |                     | the backward; needs a policy that swaps                                        |
/// | recompute           | only tensors that cross the segment's bounds stay; the others are computed     |
/// |                     | again, with the same random numbers and bits, before the backward              |
/// | recompute_and_stash | only tensors that cross the segment's bounds, in host memory                   |
///
/// The last segment of a stage keeps its activations, since its backward follows at once.
///
/// Source of recomputation: Chen et al., Training deep nets with sublinear memory cost, arXiv 1604.06174.
enum class Activations : std::uint8_t { keep, stash, recompute, recompute_and_stash };

inline constexpr std::array<Activations, 4> all_activations{Activations::keep, Activations::stash,
                                                            Activations::recompute,
                                                            Activations::recompute_and_stash};

constexpr bool recomputes(Activations choice) {
  return choice == Activations::recompute || choice == Activations::recompute_and_stash;
}
constexpr bool stashes(Activations choice) {
  return choice == Activations::stash || choice == Activations::recompute_and_stash;
}

/// The schedule by which the segments of a swapped model are on the device.
///
/// | per_micro_batch        | true: each micro-batch runs through all segments alone; false: all  |
/// |                        | micro-batches of a fold run through a segment, then the next. A     |
/// |                        | pipeline with an order of its own (several stages) keeps its order  |
/// | copies_on_compute_lane | true: copies to host memory run on the compute lane; false: on a    |
/// |                        | lane of their own                                                   |
/// | writes_back            | true: weights are copied to host memory after each forward and      |
/// |                        | backward, too, even though they have not changed                    |
/// | resident_segments      | the number of first segments of a stage that always stay on the     |
/// |                        | device, with gradients and optimizer state: no step waits for their |
/// |                        | loads, or for copies of their gradients                             |
/// | stash_slots            | the number of slots for stashed activations on their way to host    |
/// |                        | memory, and of slots for their way back: with more slots, the link  |
/// |                        | stays busy where segments stash unevenly                            |
struct SwapSchedule {
  int weight_slots = 2;  ///< the number of slots on the device for weights; gradients have at most 3
  bool per_micro_batch = false;
  bool copies_on_compute_lane = false;
  bool writes_back = false;
  int resident_segments = 0;
  int stash_slots = 2;

  friend constexpr bool operator==(const SwapSchedule&, const SwapSchedule&) = default;
  friend constexpr auto operator<=>(const SwapSchedule&, const SwapSchedule&) = default;
};

/// The parameters of a plan that a planner may choose.
///
/// \code
/// const run::Choice choice{.cuts = {0, 12, 24},
///                          .activations = {run::Activations::recompute, run::Activations::keep}};
/// \endcode
struct Choice {
  std::vector<int> cuts;  ///< the nodes at which segments begin: 0, ..., and then the number of nodes
  std::vector<Activations> activations{};  ///< the choice for each segment; empty: Activations::keep for all
  SwapSchedule swapping{};
  std::vector<int> chunk_of_segment{};  ///< the chunk of each segment; empty: as Topology assigns them

  friend bool operator==(const Choice&, const Choice&) = default;
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

}  // namespace run
}  // namespace v0
}  // namespace reef
