#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include <reef/core/language.hpp>

/// \file
/// The decisions in the plan of a training step that a planner may make: where the model is cut, how activations are
/// kept, and when parts of the model are on the device.

namespace reef {
inline namespace v0 {
namespace run {

/// The way in which a segment of the model (consecutive operators) keeps its activations from its forward to its
/// backward.
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

/// The schedule by which the segments (consecutive operators) of a model that is swapped between host and device are on
/// the device.
///
/// | per_micro_batch        | true: each micro-batch runs through all segments alone; false: all             |
/// |                        | micro-batches of an accumulation phase run through a segment, then             |
/// |                        | the next. A pipeline with an order of its own (several stages) keeps its order |
/// | copies_on_compute_lane | true: copies to host memory run on the compute queue; false: on a              |
/// |                        | queue of their own                                                             |
/// | writes_back            | true: weights are copied to host memory after each forward and                 |
/// |                        | backward, too, even though they have not changed                               |
/// | resident_segments      | the number of first segments of a stage that always stay on the                |
/// |                        | device, with gradients and optimizer state: no step waits for their            |
/// |                        | loads, or for copies of their gradients                                        |
/// | stash_slots            | the number of device buffers for activations on their way to host              |
/// |                        | memory, and of buffers for their way back: with more, the link                 |
/// |                        | stays busy where segments have activations of uneven size                      |
struct SwapSchedule {
  int weight_slots = 2;  ///< number of device buffers for the weights of swapped segments; gradients have at most 3
  bool per_micro_batch = false;
  bool copies_on_compute_lane = false;
  bool writes_back = false;
  int resident_segments = 0;
  int stash_slots = 2;

  friend constexpr bool operator==(const SwapSchedule&, const SwapSchedule&) = default;
  friend constexpr auto operator<=>(const SwapSchedule&, const SwapSchedule&) = default;
};

/// The parameters of a training step's plan that a planner may choose.
///
/// \code
/// const run::Choice choice{.cuts = {0, 12, 24},
///                          .activations = {run::Activations::recompute, run::Activations::keep}};
/// \endcode
struct Choice {
  std::vector<int> cuts;  ///< the nodes at which segments of the model begin: 0, ..., and then the number of nodes
  std::vector<Activations> activations{};  ///< how each segment keeps its activations; empty: Activations::keep for all
  SwapSchedule swapping{};
  std::vector<int> chunk_of_segment{};  ///< the pipeline chunk of each segment; empty: as Topology assigns them

  friend bool operator==(const Choice&, const Choice&) = default;
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

}  // namespace run
}  // namespace v0
}  // namespace reef
