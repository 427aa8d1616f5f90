#pragma once

#include <reef/core/inline.hpp>
#include <reef/core/shape.hpp>

namespace reef {
inline namespace v0 {

REEF_INLINE std::string Shape::text() const {
  std::string result = "(";
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    if (axis != 0) result += ", ";
    result += std::to_string(extents_[axis]);
  }
  return result + ")";
}

}  // namespace v0
}  // namespace reef
