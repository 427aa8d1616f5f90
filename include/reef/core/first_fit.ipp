#pragma once

#include <algorithm>

#include <reef/core/first_fit.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {

REEF_INLINE Bytes first_fit(std::vector<ByteRange> taken, Bytes bytes) {
  std::sort(taken.begin(), taken.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  Bytes offset = 0;
  for (const ByteRange& range : taken) {
    if (offset + bytes <= range.begin) break;
    offset = (std::max)(offset, round_up(range.end, arena_alignment));
  }
  return offset;
}

}  // namespace v0
}  // namespace reef
