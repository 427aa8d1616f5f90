#pragma once

#include <string_view>

#include <reef/core/language.hpp>

/// \file
/// The kinds of instructions (of a rank's program) that several folders refer to by name: the folders that write, run,
/// predict or draw instructions. Any other kind is a constant of the folder that writes it: run/kinds.hpp,
/// swap/kinds.hpp, ...
///
/// \code
/// // given: std::string_view kind
/// const bool trains = kind == kinds::forward || kind == kinds::recompute || kind == kinds::backward;
/// \endcode

namespace reef {
inline namespace v0 {
namespace kinds {

inline constexpr std::string_view forward = "Forward";
inline constexpr std::string_view recompute = "Recompute";
inline constexpr std::string_view backward = "Backward";
inline constexpr std::string_view load = "Load";
inline constexpr std::string_view evict = "Evict";

}  // namespace kinds
}  // namespace v0
}  // namespace reef
