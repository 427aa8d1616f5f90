#pragma once

/// \file
/// The version of the library. The inline namespace v0 is named for the version of
/// the binary interface, so that two versions of Reef can be linked into one program.

// The numbers of the version, which are part of the name of the compiled library's symbol (inline.hpp): so they are
// defined before any include.
#define REEF_VERSION_MAJOR 0
#define REEF_VERSION_MINOR 1
#define REEF_VERSION_PATCH 0
#define REEF_VERSION "0.1.0"

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {

/// The version of the library as text, equal to the version of the CMake package.
///
/// \code
/// #include <cstdio>
/// std::printf("Reef %s\n", version);
/// \endcode
inline constexpr const char* version = REEF_VERSION;

}  // namespace v0
}  // namespace reef
