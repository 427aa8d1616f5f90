#pragma once

#include <algorithm>
#include <vector>

#include <reef/core/units.hpp>

namespace reef::inline v0 {

/// Whatever is placed in an arena begins at a multiple of this: a cache line.
inline constexpr Bytes arena_alignment = 64;

/// Bytes [begin, end) of an arena.
struct ByteRange {
  Bytes begin = 0;
  Bytes end = 0;
};

/// The lowest offset at which so many bytes lie beside all taken ranges, which may overlap.
inline Bytes first_fit(std::vector<ByteRange> taken, Bytes bytes) {
  std::sort(taken.begin(), taken.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  Bytes offset = 0;
  for (const ByteRange& range : taken) {
    if (offset + bytes <= range.begin) break;
    offset = std::max(offset, round_up(range.end, arena_alignment));
  }
  return offset;
}

}  // namespace reef::inline v0
