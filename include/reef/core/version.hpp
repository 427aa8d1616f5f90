#pragma once

/// \file
/// The version of the library. The inline namespace carries the version that breaks binary
/// interfaces, so that two versions can live in one program.

// Defined before any include, since they name the compiled library that is linked (inline.hpp).
#define REEF_VERSION_MAJOR 0
#define REEF_VERSION_MINOR 1
#define REEF_VERSION_PATCH 0
#define REEF_VERSION "0.1.0"

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {

/// The version as text, equal to the CMake package's.
///
/// \code
/// #include <cstdio>
/// std::printf("Reef %s\n", version);
/// \endcode
inline constexpr const char* version = REEF_VERSION;

}  // namespace v0
}  // namespace reef
