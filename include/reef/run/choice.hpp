#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include <reef/core/language.hpp>

/// \file
/// The decisions of a plan that a planner may take: cuts, activations, and when segments are on the device.

namespace reef {
inline namespace v0 {
namespace run {

/// How a segment of the model keeps its activations between its forward and its backward.
///
/// | keep                | all that its backward reads                                                      |
/// | stash               | as much, in host memory: it leaves after the forward, and comes back before the  |
/// |                     | backward. To stash, a policy has to swap                                         |
/// | recompute           | what crosses its bounds; the rest is computed again, with the same random        |
/// |                     | numbers and bits, before its backward                                            |
/// | recompute_and_stash | what crosses its bounds, in host memory                                          |
///
/// The last segment of a stage keeps, since its backward comes at once.
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

/// The rule by which segments of a model that is swapped are on the device.
///
/// | per_micro_batch        | each micro-batch runs through all segments by itself; else all of a |
/// |                        | fold through each. A pipeline with an order of its own, as one of   |
/// |                        | several stages has, keeps that: its units pass                      |
/// | copies_on_compute_lane | copies to host memory take the compute lane's time; else they have  |
/// |                        | a lane of their own                                                 |
/// | writes_back            | weights leave, too, after forwards and after backwards, though they |
/// |                        | have not changed                                                    |
/// | resident_segments      | how many first segments of a stage are on the device for good, with |
/// |                        | gradients and optimizer state: no step waits for their load, nor    |
/// |                        | for their gradients to leave                                        |
/// | stash_slots            | for what is stashed of segments, on its way out, and as many on its |
/// |                        | way back: with more of them the link goes on with much of one       |
/// |                        | segment beside others that stash little                             |
struct SwapSchedule {
  int weight_slots = 2;  ///< slots on the device for weights; for gradients 3 at most
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
  std::vector<int> cuts;  ///< cuts of the model: 0, the first nodes of further segments, the number of nodes
  std::vector<Activations> activations{};  ///< choice for each segment; empty: all are kept
  SwapSchedule swapping{};
  std::vector<int> chunk_of_segment{};  ///< chunk of each segment; empty: as the topology has them

  friend bool operator==(const Choice&, const Choice&) = default;
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

}  // namespace run
}  // namespace v0
}  // namespace reef
