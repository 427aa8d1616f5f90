#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <reef/core/config.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The rules that a partition into sub-models (swapped between host and device) must keep, and the criterion by which
/// the best is chosen.
///
/// | paper       | Algorithm 1 of ATOM, corrected: every sub-model fits alone, with workspaces added up; loads |
/// |             | are hidden in the forward                                                                   |
/// | full        | the sub-model that runs and the one that is loaded fit together, and loads are hidden in    |
/// |             | both directions. The last one stays for its backward, the first one for the next forward    |
/// | turn        | full, but the load at each turn between forward and backward begins one sub-model earlier:  |
/// |             | it has more time to be hidden, and two sub-models must fit together there, too              |
/// | stash       | full, with the tensors that cross the cuts so far, of all micro-batches, kept on the device |
/// | three       | full, counting the sub-model that is evicted, too: for SwapLanes::three_lanes               |
/// | three_stash | the rules of three and of stash                                                             |
/// | soft        | the memory rules of full, but loads need not be hidden: least time, then fewest bytes       |
///
/// All but soft choose the partition with the fewest bytes through the cuts, then the least time.
///
/// \code
/// constexpr std::optional<plan::Variant> variant = plan::variant_of("three-stash");
/// static_assert(variant && plan::keeps_three(*variant));
/// \endcode
enum class Variant : std::uint8_t { paper, full, turn, stash, three, three_stash, soft };

inline constexpr std::array<std::string_view, 7> variant_names{
    "paper", "full", "turn", "stash", "three", "three-stash", "soft"};

constexpr std::string_view name_of(Variant variant) {
  return variant_names[static_cast<std::size_t>(variant)];
}

/// Returns true if the tensors that cross the cuts between sub-models stay on the device.
constexpr bool stashes(Variant variant) {
  return variant == Variant::stash || variant == Variant::three_stash;
}

/// Returns true if the sub-model that is evicted counts on the device beside the one that runs and the one loaded.
constexpr bool keeps_three(Variant variant) {
  return variant == Variant::three || variant == Variant::three_stash;
}

/// Returns the rules of ATOM's planner with this name, such as "paper", or nothing if there are none.
constexpr std::optional<Variant> variant_of(std::string_view name) {
  for (std::size_t i = 0; i < variant_names.size(); ++i) {
    if (variant_names[i] == name) return static_cast<Variant>(i);
  }
  return std::nullopt;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
