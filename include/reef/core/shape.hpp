#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {

/// The extents of a row-major tensor, the slowest-varying axis first: (B, T, C). There are at most four;
/// without extents the shape is that of a scalar, of one element. A tensor with an extent of 0 is empty.
///
/// \code
/// const Shape x{8, 64, 128};                // (B, T, C)
/// const std::int64_t rows = x.rows();       // 512
/// const Shape logits = x.with_last(50257);  // (8, 64, 50257)
/// \endcode
class Shape {
public:
  static constexpr std::size_t max_rank = 4;
  /// The most elements of a tensor: more than any memory holds, few enough that their bytes fit in 64 bits.
  static constexpr std::int64_t max_size = std::int64_t{1} << 58;

  constexpr Shape() = default;

  /// Throws ShapeError when there are more than four extents, one is
  /// negative, or the product of the nonzero extents is above max_size.
  constexpr Shape(std::initializer_list<std::int64_t> extents) {
    if (extents.size() > max_rank) throw ShapeError("reef::Shape: more than 4 extents.");
    for (const std::int64_t extent : extents) extents_[rank_++] = extent;
    validate();
  }

  [[nodiscard]] constexpr std::size_t rank() const { return rank_; }
  [[nodiscard]] constexpr std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }

  /// Returns the extent of the tensor's last axis, the fastest-varying one; 1 for a scalar.
  [[nodiscard]] constexpr std::int64_t last() const { return rank_ == 0 ? 1 : extents_[rank_ - 1]; }

  /// Returns the product of all extents: the tensor's number of elements.
  [[nodiscard]] constexpr std::int64_t size() const {
    std::int64_t product = 1;
    for (std::size_t axis = 0; axis < rank_; ++axis) product *= extents_[axis];
    return product;
  }

  /// Returns the product of all extents but the last: the tensor's number of rows.
  [[nodiscard]] constexpr std::int64_t rows() const {
    std::int64_t product = 1;
    for (std::size_t axis = 0; axis + 1 < rank_; ++axis) product *= extents_[axis];
    return product;
  }

  /// Returns this shape with another extent of the last axis. Throws ShapeError as the constructor does.
  [[nodiscard]] constexpr Shape with_last(std::int64_t extent) const {
    Shape result = *this;
    if (result.rank_ == 0) result.rank_ = 1;
    result.extents_[result.rank_ - 1] = extent;
    result.validate();
    return result;
  }

  friend constexpr bool operator==(const Shape&, const Shape&) = default;

  /// Returns the shape as text: "(8, 64, 128)".
  [[nodiscard]] std::string text() const;

private:
  constexpr void validate() const {
    std::int64_t product = 1;
    for (std::size_t axis = 0; axis < rank_; ++axis) {
      const std::int64_t extent = extents_[axis];
      if (extent < 0) throw ShapeError("reef::Shape: ", text(), " has a negative extent.");
      if (extent > max_size / product) {
        throw ShapeError("reef::Shape: ", text(), " has more elements than any memory holds.");
      }
      product *= extent == 0 ? 1 : extent;
    }
  }

  std::array<std::int64_t, max_rank> extents_{};
  std::size_t rank_ = 0;
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/core/shape.ipp>
#endif
