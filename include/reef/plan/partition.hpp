#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/chain.hpp>
#include <reef/plan/variant.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The most operators that partition_chain() accepts, and the most for variants of its rules with kept activations
/// (stashes) or three sub-models on the device, which take seconds. With three, models whose search needs too much
/// memory are refused, too.
inline constexpr int max_operators = 4096;
inline constexpr int max_operators_of_three = 1024;

/// Options of partition_chain(), which cuts a model into swapped sub-models.
struct PartitionOptions {
  Bytes memory = 0;  ///< the memory of the device in bytes
  std::int64_t accumulation =
      1;  ///< number C of micro-batches that pass a sub-model before it leaves the device
  Variant variant = Variant::full;
  /// True: if no partition is feasible, the reason is searched for `why`, by up to hundreds of runs.
  bool explains = true;
};

/// A partition of a model's operators into sub-models that are swapped, or the reason why there is none.
struct Partition {
  bool feasible = false;
  bool fits = false;  ///< true: the whole model fits the device by the rules of Variant::full, and need not be cut
  std::vector<int> bounds;  ///< ends of the sub-models: sub-model i is the operators [bounds[i], bounds[i + 1])
  std::int64_t accumulation = 1;
  Bytes cut_bytes = 0;  ///< the bytes of one micro-batch that cross all cuts of the model together
  Ticks iteration =
      0;  ///< the ticks of all C micro-batches in the steady state with SwapLanes::two_lanes, by whichever rules
  Ticks compute = 0;     ///< the ticks of all forwards and backwards in an iteration
  Bytes peak_bytes = 0;  ///< the most bytes on the device at once, as the planner's rules (variant) count them
  std::string why;       ///< the reason why no partition is feasible, if none is, and what would be feasible

  [[nodiscard]] double utilisation() const {
    return iteration > 0 ? static_cast<double>(compute) / static_cast<double>(iteration) : 0;
  }
};

}  // namespace plan
}  // namespace v0
}  // namespace reef
