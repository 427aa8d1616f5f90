#pragma once

#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/io/stored_tensor.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

REEF_INLINE std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  }
  return text + ")";
}

REEF_INLINE std::span<const std::int64_t> extents_of(
    const Shape& shape, std::array<std::int64_t, Shape::max_rank>& to) {
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) to[axis] = shape[axis];
  return std::span(to).first(shape.rank());
}

}  // namespace detail

}  // namespace io
}  // namespace v0
}  // namespace reef
