#pragma once

#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {

/// The alignment of offsets in an arena: a cache line.
inline constexpr Bytes arena_alignment = 64;

/// Bytes [begin, end) of an arena.
struct ByteRange {
  Bytes begin = 0;
  Bytes end = 0;
};

/// Returns the lowest multiple of arena_alignment at which `bytes` bytes overlap none of the taken ranges, which
/// may overlap each other.
///
/// \code
/// const std::vector<ByteRange> taken{{.begin = 0, .end = 128}, {.begin = 256, .end = 512}};
/// const Bytes offset = first_fit(taken, 64);  // 128
/// \endcode
Bytes first_fit(std::vector<ByteRange> taken, Bytes bytes);

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/core/first_fit.ipp>
#endif
