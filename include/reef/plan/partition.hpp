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

/// The most operators that partition_chain takes, and the most with stashes or three resident sub-models, which
/// take seconds for that number; with three resident sub-models some chains are refused for their memory.
inline constexpr int most_operators = 4096;
inline constexpr int most_operators_of_three = 1024;

/// Options of a partition.
struct PartitionOptions {
  Bytes memory = 0;  ///< the memory of the device
  std::int64_t accumulation =
      1;  ///< C: micro-batches that pass a sub-model before the next is loaded
  Variant variant = Variant::full;
  bool explains = true;  ///< if there is no partition, `why` has the reason: dozens of searches, hundreds at most
};

/// A partition of a chain into sub-models that are swapped, or why there is none.
struct Partition {
  bool feasible = false;
  bool fits = false;        ///< the whole chain fits the device, as Variant::full counts: it need not be cut
  std::vector<int> bounds;  ///< sub-model i is [bounds[i], bounds[i + 1])
  std::int64_t accumulation = 1;
  Bytes cut_bytes = 0;  ///< the bytes of one micro-batch through all cuts
  Ticks iteration =
      0;  ///< the time of all micro-batches, in the steady state, on two lanes whatever the variant
  Ticks compute = 0;     ///< the part of the iteration that is forwards and backwards
  Bytes peak_bytes = 0;  ///< the most that the variant's rules count at once
  std::string why;       ///< the reason, if no partition is feasible, and what would be feasible

  [[nodiscard]] double utilisation() const {
    return iteration > 0 ? static_cast<double>(compute) / static_cast<double>(iteration) : 0;
  }
};

}  // namespace plan
}  // namespace v0
}  // namespace reef
