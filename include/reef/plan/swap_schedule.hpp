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

/// The lanes on which sub-models pass through the device.
///
/// | two_lanes      | ATOM as published: a load beside the sub-model that runs; what leaves, leaves on the |
/// |                | compute lane. The last stays for its backward, the first for the next forward        |
/// | three_lanes    | as two_lanes, and what leaves has a lane of its own                                  |
/// | streaming      | every micro-batch by itself through all sub-models, the next loaded beside, what     |
/// |                | leaves on a lane of its own: layer streaming, as ZeRO-Offload's                      |
/// | streaming_sync | as streaming, and nothing runs at the same time                                      |
enum class SwapLanes : std::uint8_t { two_lanes, three_lanes, streaming, streaming_sync };

/// Returns the lanes of a name in case files, if it is one.
constexpr std::optional<SwapLanes> swap_lanes_of(std::string_view name) {
  constexpr std::array<std::string_view, 4> names{"atom2", "atom3", "zero", "zero_sync"};
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<SwapLanes>(found - names.begin());
}

struct SwapSchedule {
  std::int64_t accumulation = 1;
  SwapLanes lanes = SwapLanes::three_lanes;
  /// The sub-models on the device at once, with three lanes; 0 asks only that one has left when it runs again.
  /// Two lanes have two, and streaming has no limit.
  int weight_slots = 0;
  /// Loads start one sub-model earlier where one pass ends and the other begins; on two or three
  /// lanes.
  bool turn = false;
};

/// The times of a schedule, in the chain's ticks.
struct SwapTimes {
  /// The time of an iteration in the steady state: after some dozen others, and their mean where they differ.
  Ticks iteration = 0;
  Ticks compute = 0;  ///< the part of an iteration that is forwards and backwards
  Ticks first = 0;    ///< the time of the first iteration, which begins with nothing on the device

  [[nodiscard]] double utilisation() const {
    return iteration > 0 ? static_cast<double>(compute) / static_cast<double>(iteration) : 0;
  }
};

}  // namespace plan
}  // namespace v0
}  // namespace reef
