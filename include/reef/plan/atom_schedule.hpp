#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <reef/plan/chain.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The queues (lanes) in which sub-models (consecutive operators) are loaded to the device, run, and evicted to the
/// host.
///
/// | two_lanes      | ATOM as published: the next sub-model is loaded while one runs; evictions run on the |
/// |                | compute lane. The last stays for its backward, the first for the next forward        |
/// | three_lanes    | as two_lanes, but evictions run on a lane of their own                               |
/// | streaming      | every micro-batch passes all sub-models alone; the next one is loaded meanwhile, and |
/// |                | evictions run on a lane of their own: layer streaming, as in ZeRO-Offload            |
/// | streaming_sync | as streaming, but no two of load, computation and eviction overlap                   |
enum class SwapLanes : std::uint8_t { two_lanes, three_lanes, streaming, streaming_sync };

/// Returns the queues that a case file means by a name (such as "two_lanes"), or nothing for an unknown name.
constexpr std::optional<SwapLanes> swap_lanes_of(std::string_view name) {
  constexpr std::array<std::string_view, 4> names{"atom2", "atom3", "zero", "zero_sync"};
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<SwapLanes>(found - names.begin());
}

struct AtomSchedule {
  std::int64_t accumulation = 1;
  SwapLanes lanes = SwapLanes::three_lanes;
  /// The most sub-models (consecutive operators) on the device at once, 2 or more, or 0 for no limit; for three_lanes
  /// alone. two_lanes always has two, and streaming has no limit.
  int weight_slots = 0;
  /// True: loads of sub-models start one earlier where forward turns to backward pass, and back; for two_lanes and
  /// three_lanes alone.
  bool turn = false;
};

/// The times of a swap schedule, in the ticks (integer time unit) of its model.
struct SwapTimes {
  /// The time of an iteration in the steady state, in ticks: of the last of some dozens, or their mean if they differ.
  Ticks iteration = 0;
  Ticks compute = 0;  ///< the time of all forwards and backwards in an iteration, in ticks
  /// The time of the first iteration, in ticks, which begins with nothing on the device.
  Ticks first = 0;

  [[nodiscard]] double utilisation() const {
    return iteration > 0 ? static_cast<double>(compute) / static_cast<double>(iteration) : 0;
  }
};

}  // namespace plan
}  // namespace v0
}  // namespace reef
