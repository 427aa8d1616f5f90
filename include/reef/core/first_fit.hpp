#pragma once

#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {

/// The alignment of offsets in an arena, in bytes: the size of a cache line.
inline constexpr Bytes arena_alignment = 64;

/// A range of bytes in an arena, from offset `begin` up to, not including, offset `end`.
struct ByteRange {
  Bytes begin = 0;
  Bytes end = 0;
};

/// Returns the lowest multiple of arena_alignment at which a block of `bytes`
/// bytes overlaps none of the ranges in `taken`, which may overlap each other.
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
